//! figment's errors in words for people: the key, what it must be, what it is, and where that was set.

use figment::Figment;
use figment::error::{Actual, Kind};

/// All faults in one line.
pub(super) fn describe(error: figment::Error, figment: &Figment) -> String {
    let faults: Vec<String> = error.into_iter().map(|fault| describe_one(&fault, figment)).collect();
    faults.join("; ")
}

fn describe_one(fault: &figment::Error, figment: &Figment) -> String {
    let key = fault.path.iter().map(String::as_str).filter(|part| *part != "default").collect::<Vec<_>>().join(".");
    let description = match &fault.kind {
        Kind::InvalidType(actual, expected) | Kind::InvalidValue(actual, expected) => {
            format!("must be {}, got {}", expected_words(expected), actual_words(actual))
        }
        Kind::UnknownVariant(actual, variants) => format!("must be {}, got {actual:?}", variants.join(" or ")),
        Kind::Message(text) if text == "invalid socket address syntax" => {
            let form = "must be an IP address and a port, such as 127.0.0.1:7700";
            match figment.find_value(&key).ok().and_then(|value| value.into_string()) {
                Some(given) => format!("{form} (host names are not looked up), got {given:?}"),
                None => form.to_owned(),
            }
        }
        _ => return fault.to_string().replace("default.", ""),
    };
    let origin = fault.metadata.as_ref().map(|metadata| format!(" (in {})", metadata.name)).unwrap_or_default();
    if key.is_empty() {
        format!("the configuration {description}{origin}")
    } else {
        format!("{key} {description}{origin}")
    }
}

fn expected_words(expected: &str) -> &str {
    match expected {
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number from 0",
        "a boolean" | "bool" => "true or false",
        "a string" | "string" | "path string" => "a text",
        "socket address" => "an IP address and a port such as 127.0.0.1:7700",
        other => other.strip_prefix("struct ").map_or(other, |_| "a section"),
    }
}

fn actual_words(actual: &Actual) -> String {
    match actual {
        Actual::Bool(value) => value.to_string(),
        Actual::Unsigned(value) => value.to_string(),
        Actual::Signed(value) => value.to_string(),
        Actual::Float(value) => value.to_string(),
        Actual::Str(value) => format!("{value:?}"),
        other => other.to_string(),
    }
}
