//! The BGE family: what its model cards say and its files do not.
//!
//! Source: FlagEmbedding, `inference/embedder/model_mapping.py` and `research/baai_general_embedding/README.md`. All these
//! models take the first token's vector, scale it to unit length, and put the instruction before queries only, by plain
//! concatenation (`"{}{}"`).

/// Before a query to the English models; the trailing space belongs to it.
const ENGLISH: &str = "Represent this sentence for searching relevant passages: ";
/// Before a query to the Chinese models; it ends with a full-width colon and no space.
const CHINESE: &str = "为这个句子生成表示以用于检索相关文章：";

/// The query instruction of each model, by the last part of its name.
const QUERY_INSTRUCTIONS: [(&str, &str); 13] = [
    ("bge-small-en", ENGLISH),
    ("bge-base-en", ENGLISH),
    ("bge-large-en", ENGLISH),
    ("bge-small-en-v1.5", ENGLISH),
    ("bge-base-en-v1.5", ENGLISH),
    ("bge-large-en-v1.5", ENGLISH),
    ("bge-small-zh", CHINESE),
    ("bge-base-zh", CHINESE),
    ("bge-large-zh", CHINESE),
    ("bge-small-zh-v1.5", CHINESE),
    ("bge-base-zh-v1.5", CHINESE),
    ("bge-large-zh-v1.5", CHINESE),
    ("bge-m3", ""),
];

/// The query instruction of the BGE model called `name`; none when it is not one.
///
/// `name` may be a repository (`BAAI/bge-small-en-v1.5`), a folder's name, or what `_name_or_path` of config.json holds
/// (`.../BAAI_bge-small-en/`).
pub(crate) fn query_instruction(name: &str) -> Option<&'static str> {
    let last = name.trim_end_matches('/').rsplit('/').next()?.to_ascii_lowercase();
    let model = last.strip_prefix("baai_").unwrap_or(&last);
    QUERY_INSTRUCTIONS.iter().find(|(known, _)| *known == model).map(|(_, instruction)| *instruction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_exact() {
        for name in
            ["BAAI/bge-small-en-v1.5", "bge-large-en", "/root/.cache/BAAI_bge-base-en/", "baai/BGE-Base-EN-v1.5"]
        {
            let instruction = query_instruction(name).unwrap();
            assert_eq!(instruction, "Represent this sentence for searching relevant passages: ", "{name}");
            assert!(instruction.ends_with(": "));
        }
        let chinese = query_instruction("BAAI/bge-small-zh-v1.5").unwrap();
        assert_eq!(chinese.chars().count(), 19);
        assert!(chinese.ends_with('\u{ff1a}'));
        assert_eq!(query_instruction("BAAI/bge-m3"), Some(""));
    }

    #[test]
    fn other_models_have_none() {
        for name in ["sentence-transformers/all-MiniLM-L6-v2", "me/my-bge-small-en", "bge-small-en/v2", "", "/"] {
            assert_eq!(query_instruction(name), None, "{name}");
        }
    }
}
