//! Environment variables that look like settings and are none.

use std::collections::{BTreeMap, BTreeSet};

use super::SETTINGS;

/// Names in `environment` that begin like a setting's variable (`TOLLER_LIMITS_…`) but belong to none: most likely
/// misspelled. Variables that Kubernetes makes for services called `toller` or `toller-server` are not among them.
/// O(variables × settings).
pub fn unknown_variables(environment: &BTreeMap<String, String>) -> Vec<String> {
    let known: BTreeSet<String> = SETTINGS.iter().map(super::Setting::env).collect();
    let section_of = |setting: &super::Setting| setting.key.split('.').next().unwrap_or_default().to_uppercase();
    let mut sections: BTreeSet<String> = SETTINGS.iter().map(section_of).collect();
    // API keys stand in the file only.
    sections.insert("AUTH".to_owned());
    let is_strange = |name: &str, value: &str| {
        let Some(rest) = name.strip_prefix("TOLLER_") else { return false };
        let within = sections.iter().find_map(|section| rest.strip_prefix(section.as_str())?.strip_prefix('_'));
        !known.contains(name) && within.is_some_and(|rest| !is_of_kubernetes(rest, value))
    };
    environment.iter().filter(|(name, value)| is_strange(name, value)).map(|(name, _)| name.clone()).collect()
}

/// A service gives `NAME_SERVICE_HOST`, `NAME_SERVICE_PORT…`, `NAME_PORT=tcp://…` and `NAME_PORT_…`.
fn is_of_kubernetes(rest: &str, value: &str) -> bool {
    rest.starts_with("SERVICE_") || rest.starts_with("PORT_") || (rest == "PORT" && value.contains("://"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelled_settings_are_found_and_nothing_else() {
        let environment = [
            ("TOLLER_LIMITS_MAX_J", "1"),
            ("TOLLER_LIMITS_MAX_K", "1"),
            ("TOLLER_AUTH_KEYS", "x"),
            ("TOLLER_SERVER", "http://127.0.0.1:7700"),
            ("TOLLER_SERVER_PORT", "8000"),
            ("TOLLER_EMBEDDING_PORT", "tcp://10.0.0.1:7700"),
            ("TOLLER_SERVER_SERVICE_HOST", "10.0.0.1"),
            ("TOLLER_SERVER_PORT_7700_TCP_ADDR", "10.0.0.1"),
            ("TOLLER_SERVICE_HOST", "10.0.0.1"),
            ("TOLLER_PORT", "tcp://10.0.0.1:7700"),
            ("TOLLER_API_KEY", "x"),
            ("TOLLER_CONFIG", "x"),
        ];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        assert_eq!(unknown_variables(&environment), ["TOLLER_AUTH_KEYS", "TOLLER_LIMITS_MAX_J", "TOLLER_SERVER_PORT"]);
    }
}
