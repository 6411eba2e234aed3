//! The spelling of the contract's enums on the command line and in JSON: `METRIC_COSINE` is `cosine`.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use toller_api::v1;

/// An enum of the contract with a spelling, both ways. A number that this version does not know reads as none.
macro_rules! spelled {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
        #[value(rename_all = "snake_case")]
        #[serde(rename_all = "snake_case")]
        pub(crate) enum $name {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $name {
            /// From a message's field.
            pub(crate) fn from_message(number: i32) -> Option<Self> {
                match v1::$name::try_from(number) {
                    $(Ok(v1::$name::$variant) => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }

        impl From<$name> for i32 {
            fn from(value: $name) -> i32 {
                match value {
                    $($name::$variant => v1::$name::$variant.into(),)*
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self.to_possible_value() {
                    Some(value) => formatter.write_str(value.get_name()),
                    None => Ok(()),
                }
            }
        }
    };
}

spelled! {
    /// How vectors are compared.
    Metric {
        /// Cosine similarity; more is better
        Cosine,
        /// Inner product; more is better
        Dot,
        /// Euclidean distance; less is better
        Euclidean,
    }
}

spelled! {
    /// With how many bits an element of a vector is kept beside its full form.
    QuantizationKind {
        /// Eight: a quarter of the memory
        Int8,
        /// One: a thirty-second of the memory, for vectors of many dimensions
        Binary,
    }
}

spelled! {
    /// How hits are chosen.
    SearchType {
        /// The best k
        Similarity,
        /// The best k of those that reach a threshold
        SimilarityScoreThreshold,
        /// Maximal marginal relevance: relevant, and unlike each other
        Mmr,
    }
}

spelled! {
    /// How relevance follows from the metric's value, where it is not the metric's own way.
    RelevanceFunction {
        /// (1 + s) / 2; for cosine and dot
        HalfCosine,
        /// 1 / (1 + d); for euclidean, and for cosine with d = 1 - cos
        Reciprocal,
        /// 1 / (1 + exp(-s)); for cosine and dot
        Sigmoid,
    }
}

spelled! {
    /// What becomes of a retrieval when a part of it fails.
    OnError {
        /// It fails too
        Fail,
        /// It goes on without the part
        Skip,
    }
}

spelled! {
    /// How children make the score of their parent.
    ParentScore {
        /// The best one
        Max,
        /// The mean
        Mean,
        /// The sum
        Sum,
        /// That of the child that came first
        First,
    }
}

spelled! {
    /// How several rankings become one.
    Fusion {
        /// Reciprocal ranks
        Rrf,
        /// Scores between each list's least and greatest
        MinMax,
        /// Scores between three standard deviations around each list's mean
        DistributionBased,
        /// Relevances
        Convex,
    }
}

spelled! {
    /// What is in a metadata field.
    FieldType {
        /// A string
        String,
        /// A whole number
        Integer,
        /// Any number
        Number,
        /// True or false
        Boolean,
        /// A list of strings
        StringList,
    }
}

spelled! {
    /// What becomes of a retrieval when a language model's answer is wrong.
    OnInvalid {
        /// It fails
        Fail,
        /// It goes on without the model's filter
        Ignore,
    }
}

spelled! {
    /// What an acknowledged write survives.
    Durability {
        /// An orderly shutdown only
        None,
        /// A crash of the process
        Process,
        /// Power loss
        Fsync,
    }
}

spelled! {
    /// How far an operation is.
    OperationState {
        /// It runs
        Running,
        /// It did what it was to do
        Succeeded,
        /// It ended with a fault
        Failed,
        /// It was stopped
        Cancelled,
    }
}

spelled! {
    /// The language of texts.
    Language {
        /// No stop words and no stems
        None,
        /// Arabic
        Arabic,
        /// Basque
        Basque,
        /// Catalan
        Catalan,
        /// Danish
        Danish,
        /// Dutch
        Dutch,
        /// English
        English,
        /// Finnish
        Finnish,
        /// French
        French,
        /// German
        German,
        /// Greek
        Greek,
        /// Hungarian
        Hungarian,
        /// Indonesian
        Indonesian,
        /// Italian
        Italian,
        /// Nepali
        Nepali,
        /// Norwegian
        Norwegian,
        /// Portuguese
        Portuguese,
        /// Romanian
        Romanian,
        /// Russian
        Russian,
        /// Spanish
        Spanish,
        /// Swedish
        Swedish,
        /// Tamil
        Tamil,
        /// Turkish
        Turkish,
    }
}

spelled! {
    /// Which pooling makes one vector of token vectors.
    Pooling {
        /// The first token's vector
        Cls,
        /// The mean over all tokens
        Mean,
    }
}

impl From<Metric> for toller_core::Metric {
    fn from(metric: Metric) -> Self {
        match metric {
            Metric::Cosine => Self::Cosine,
            Metric::Dot => Self::Dot,
            Metric::Euclidean => Self::Euclidean,
        }
    }
}

/// The spelling, or a dash for what is not set or not known to this version.
pub(crate) fn or_dash(name: Option<impl std::fmt::Display>) -> String {
    name.map_or_else(|| "-".to_owned(), |name| name.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spelling_is_the_contracts() {
        for name in SearchType::value_variants() {
            let number = i32::from(*name);
            let in_contract = v1::SearchType::try_from(number).unwrap().as_str_name();
            assert_eq!(format!("SEARCH_TYPE_{}", name.to_string().to_uppercase()), in_contract);
            assert_eq!(SearchType::from_message(number), Some(*name));
        }
        assert_eq!(serde_json::to_string(&RelevanceFunction::HalfCosine).unwrap(), r#""half_cosine""#);
        assert_eq!(Durability::None.to_string(), "none");
    }

    #[test]
    fn unset_and_unknown_numbers_are_none() {
        assert_eq!(Metric::from_message(0), None);
        assert_eq!(Metric::from_message(99), None);
        assert_eq!(or_dash(Metric::from_message(99)), "-");
    }
}
