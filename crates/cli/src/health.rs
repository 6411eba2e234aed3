//! `toller health`: is the server, or one of its services, ready?

use std::process::ExitCode;
use std::time::{Duration, Instant};

use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;

use crate::client::{ServerArgs, block_on, parse_seconds};
use crate::error::{Error, Outcome};
use crate::output::Output;

/// Pause between two checks with `--wait`.
const POLL: Duration = Duration::from_millis(100);

/// Check whether a server is ready (grpc.health.v1)
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Prints the status, such as SERVING or NOT_SERVING. Exit code 0 when it is SERVING, else 1.

Examples:
  toller health
  toller health --wait 30 && toller ingest docs/
  toller health --service toller.v1.Retrieval")]
pub(crate) struct Args {
    /// Full name of one service, such as toller.v1.Retrieval; without it, the server as a whole
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    service: String,
    /// Wait until it is SERVING, for at most this long
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    wait: Option<Duration>,
    #[command(flatten)]
    server: ServerArgs,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> Outcome {
    let checked = block_on(async {
        let until = args.wait.map(|wait| Instant::now() + wait);
        loop {
            let checked = check(&args).await;
            match until {
                Some(until) if !is_final(&checked) && Instant::now() + POLL < until => tokio::time::sleep(POLL).await,
                _ => return checked,
            }
        }
    })?;
    let mut output = Output::new();
    output.line(checked.as_str_name())?;
    output.flush()?;
    Ok(if checked == ServingStatus::Serving { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn check(args: &Args) -> Result<ServingStatus, Error> {
    let mut client = args.server.connect().await?.health();
    let request = HealthCheckRequest { service: args.service.clone() };
    match client.check(request).await {
        Ok(answer) => Ok(answer.into_inner().status()),
        Err(status) if status.code() == tonic::Code::NotFound => Err(Error::Failed(format!(
            "the server has no service {:?}; write its full name, such as toller.v1.Retrieval",
            args.service
        ))),
        Err(status) => Err(status.into()),
    }
}

/// Is there nothing to wait for? A server that is not there yet may come; a wrong service name stays wrong.
fn is_final(checked: &Result<ServingStatus, Error>) -> bool {
    match checked {
        Ok(status) => *status == ServingStatus::Serving,
        Err(Error::Connect { .. }) => false,
        Err(Error::Call(status)) => !matches!(
            status.code(),
            tonic::Code::Unavailable | tonic::Code::DeadlineExceeded | tonic::Code::Cancelled | tonic::Code::Unknown
        ),
        Err(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_ends_at_serving_and_at_what_will_not_change() {
        assert!(is_final(&Ok(ServingStatus::Serving)));
        assert!(!is_final(&Ok(ServingStatus::NotServing)));
        assert!(!is_final(&Err(Error::Connect { server: String::new(), fault: String::new() })));
        assert!(!is_final(&Err(tonic::Status::unavailable("").into())));
        assert!(is_final(&Err(tonic::Status::unimplemented("").into())));
        assert!(is_final(&Err(Error::Usage(String::new()))));
    }
}
