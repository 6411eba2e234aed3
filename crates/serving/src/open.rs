//! The services that everybody may call at any time: health, for probes, and reflection, for tools.
//!
//! They need no key, are not counted against the limit of calls, and have no deadline but their caller's, since a health watch
//! is meant to stay open.

const HEALTH: &str = "/grpc.health.v1.Health/";
const REFLECTION: [&str; 2] = ["/grpc.reflection.v1.ServerReflection/", "/grpc.reflection.v1alpha.ServerReflection/"];

/// Is it a path of one of these services?
pub(crate) fn is_open(path: &str) -> bool {
    path.starts_with(HEALTH) || REFLECTION.iter().any(|prefix| path.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_health_and_reflection_are_open() {
        assert!(is_open("/grpc.health.v1.Health/Check") && is_open("/grpc.health.v1.Health/Watch"));
        assert!(is_open("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"));
        assert!(is_open("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"));
        for closed in
            ["/toller.v1.Retrieval/Search", "/grpc.health.v1.Healthy/Check", "grpc.health.v1.Health/Check", "/", ""]
        {
            assert!(!is_open(closed), "{closed}");
        }
    }
}
