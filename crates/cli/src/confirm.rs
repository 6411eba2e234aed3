//! A question before something is lost.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use crate::error::Error;

/// Asks on the terminal whether to go on; `yes` answers in advance.
///
/// # Errors
/// `Usage` when there is nobody to ask: standard input is no terminal.
pub(crate) fn confirm(question: &str, yes: bool) -> Result<bool, Error> {
    if yes {
        return Ok(true);
    }
    if !io::stdin().is_terminal() {
        return Err(Error::Usage(format!("{question} there is no terminal to ask on; say --yes")));
    }
    let mut stderr = io::stderr();
    let _ = write!(stderr, "{question} [y/N] ");
    let _ = stderr.flush();
    let mut answer = String::new();
    io::stdin()
        .lock()
        .read_line(&mut answer)
        .map_err(|fault| Error::Failed(format!("cannot read the answer from the terminal: {fault}")))?;
    Ok(is_yes(&answer))
}

fn is_yes(answer: &str) -> bool {
    matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_yes_is_one() {
        for answer in ["y\n", "YES\n", " yes "] {
            assert!(is_yes(answer), "{answer:?}");
        }
        for answer in ["", "\n", "n\n", "yep\n", "ja\n"] {
            assert!(!is_yes(answer), "{answer:?}");
        }
    }
}
