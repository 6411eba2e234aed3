//! The one rule for names of tenants, collections and stored retrievers: safe in paths, URLs and logs.

/// Longest name in bytes.
pub const MAX_NAME_BYTES: usize = 128;

/// Checks a name: 1 to [`MAX_NAME_BYTES`] ASCII letters, digits, `-`, `_` and `.`, beginning with a letter or a digit.
///
/// # Errors
/// Says what the rule is and what was given.
pub fn check_name(name: &str) -> Result<(), String> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let begins_well = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    if begins_well && name.len() <= MAX_NAME_BYTES && name.bytes().all(allowed) {
        return Ok(());
    }
    let shown: String = name.chars().take(MAX_NAME_BYTES).collect();
    Err(format!(
        "must be 1 to {MAX_NAME_BYTES} ASCII letters, digits, '-', '_' or '.', beginning with a letter or a digit, got {shown:?}"
    ))
}

/// A newtype around a name that follows [`check_name`]. Cheap to clone.
macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
        pub struct $name(std::sync::Arc<str>);

        impl $name {
            /// Checks a name by [`crate::name::check_name`].
            ///
            /// # Errors
            /// Says what is wrong.
            pub fn new(name: &str) -> Result<Self, String> {
                crate::name::check_name(name)?;
                Ok(Self(name.into()))
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(&self.0)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let name = <String as serde::Deserialize>::deserialize(deserializer)?;
                Self::new(&name).map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use name_type;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain() {
        assert!(check_name("acme-1.docs_en").is_ok());
        for bad in ["", ".", "..", "-x", "a/b", "a b", "ü", "a\0", &"x".repeat(MAX_NAME_BYTES + 1)] {
            assert!(check_name(bad).is_err(), "{bad:?} must be refused");
        }
    }
}
