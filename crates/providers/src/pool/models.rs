//! What the workers of a pool have in common: their models.

use toller_api::convert;
use toller_api::v1;
use toller_core::Fingerprint;

/// A model that every worker of a pool has.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolModel {
    /// The name that requests use.
    pub name: String,
    /// Is it used where a request of its kind names none?
    pub is_default: bool,
    /// What it does.
    pub kind: PoolModelKind,
    /// Longest input in tokens; none where the workers do not say.
    pub max_tokens: Option<u32>,
}

/// What a model of a pool does.
#[derive(Debug, Clone, PartialEq)]
pub enum PoolModelKind {
    /// It makes vectors.
    Embedding(Fingerprint),
    /// It scores pairs.
    Reranker,
}

impl PoolModel {
    /// The fingerprint of an embedding model.
    pub fn fingerprint(&self) -> Option<&Fingerprint> {
        match &self.kind {
            PoolModelKind::Embedding(fingerprint) => Some(fingerprint),
            PoolModelKind::Reranker => None,
        }
    }

    fn is_reranker(&self) -> bool {
        matches!(self.kind, PoolModelKind::Reranker)
    }
}

/// What a worker lists.
///
/// # Errors
/// Says which model cannot be read, or that there is none.
pub(crate) fn models_from_message(listed: Vec<v1::Model>) -> Result<Vec<PoolModel>, String> {
    let mut models = Vec::with_capacity(listed.len());
    for model in listed {
        let kind = match v1::ModelKind::try_from(model.kind) {
            // Workers from before rerankers say nothing.
            Ok(v1::ModelKind::Unspecified | v1::ModelKind::Embedding) => {
                let message = model.fingerprint.ok_or_else(|| format!("{:?} has no fingerprint", model.name))?;
                let fingerprint = convert::fingerprint_from_message(message)
                    .map_err(|fault| format!("the fingerprint of {:?}: {fault}", model.name))?;
                PoolModelKind::Embedding(fingerprint)
            }
            Ok(v1::ModelKind::Reranker) => PoolModelKind::Reranker,
            // A kind of a later version, which nobody here can ask for.
            Err(_) => continue,
        };
        models.push(PoolModel { name: model.name, is_default: model.is_default, kind, max_tokens: model.max_tokens });
    }
    if models.is_empty() {
        return Err("it lists none".to_owned());
    }
    Ok(models)
}

/// Can a worker that lists `listed` answer for a pool of `wanted`? More models are no fault: workers are updated one by one.
///
/// # Errors
/// Names both models.
pub(crate) fn check_models(wanted: &[PoolModel], listed: &[PoolModel]) -> Result<(), String> {
    for model in wanted {
        let PoolModelKind::Embedding(fingerprint) = &model.kind else {
            if !listed.iter().any(|other| other.is_reranker() && other.name == model.name) {
                return Err(format!("it has no reranker {:?}, as the pool has", model.name));
            }
            continue;
        };
        // Requests name no default model, so that workers may call it by other names.
        let counterpart = listed.iter().find_map(|other| {
            let is_it = if model.is_default { other.is_default } else { other.name == model.name };
            other.fingerprint().filter(|_| is_it)
        });
        match counterpart {
            Some(other) if other.is_compatible_with(fingerprint) => {}
            Some(other) => return Err(other_model(other, fingerprint)),
            None => return Err(format!("it has no embedding model {:?}, as the pool has: {fingerprint}", model.name)),
        }
    }
    Ok(())
}

/// What is said of a worker that embeds with `other` in a pool of `wanted`.
pub(crate) fn other_model(other: &Fingerprint, wanted: &Fingerprint) -> String {
    format!("it embeds with {other}, not with {wanted} as the pool did at its start")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn embedding(name: &str, is_default: bool, dimension: u32) -> PoolModel {
        let fingerprint = Fingerprint { model: name.to_owned(), ..Fingerprint::client(dimension) };
        let fingerprint = Fingerprint { provider: "candle".to_owned(), weights_sha256: "0".repeat(64), ..fingerprint };
        PoolModel { name: name.to_owned(), is_default, kind: PoolModelKind::Embedding(fingerprint), max_tokens: None }
    }

    fn reranker(name: &str) -> PoolModel {
        PoolModel { name: name.to_owned(), is_default: true, kind: PoolModelKind::Reranker, max_tokens: None }
    }

    #[test]
    fn workers_need_every_model_of_the_pool() {
        let pool = [embedding("small", true, 4), embedding("large", false, 8), reranker("judge")];
        assert_eq!(check_models(&pool, &pool), Ok(()));
        let more = [pool.to_vec(), vec![embedding("new", false, 2)]].concat();
        assert_eq!(check_models(&pool, &more), Ok(()));
        // The same weights under another name are the same default.
        let renamed = [embedding("/models/small", true, 4), pool[1].clone(), pool[2].clone()];
        assert_eq!(check_models(&pool, &renamed), Ok(()));

        let fault = |listed: &[PoolModel]| check_models(&pool, listed).unwrap_err();
        assert!(fault(&pool[..2]).contains("judge"));
        assert!(fault(&[pool[0].clone(), reranker("judge")]).contains("large"));
        let other = [embedding("small", true, 5), pool[1].clone(), pool[2].clone()];
        assert!(fault(&other).contains("dimension 5") && fault(&other).contains("dimension 4"), "{}", fault(&other));
    }

    #[test]
    fn lists_are_read_with_kinds_of_other_versions() {
        let message = |kind, name: &str| v1::Model {
            name: name.to_owned(),
            kind,
            fingerprint: Some(v1::Fingerprint { dimension: 4, ..Default::default() }),
            ..Default::default()
        };
        let models = models_from_message(vec![message(0, "old"), message(99, "new"), message(2, "judge")]).unwrap();
        assert_eq!(models.iter().map(|model| model.name.as_str()).collect::<Vec<_>>(), ["old", "judge"]);
        assert!(models_from_message(vec![message(99, "new")]).unwrap_err().contains("none"));
        let without = v1::Model { fingerprint: None, ..message(1, "bare") };
        assert!(models_from_message(vec![without]).unwrap_err().contains("bare"));
    }
}
