//! References: wherever one stands in a tree, what it names is put in its place.

use futures::future::BoxFuture;
use toller_core::error::join_path;
use toller_core::retriever::{OnError, RetrieverKind, RetrieverName, RetrieverSpec};
use toller_core::{Error, RequestContext, Result};

use super::faults::Faults;
use super::limits::PlanLimits;
use crate::stored::StoredRetrievers;

/// Replaces the references of one tree, and bounds its size while it grows.
pub(super) struct Resolver<'a> {
    pub(super) context: &'a RequestContext,
    pub(super) stored: &'a StoredRetrievers,
    pub(super) limits: PlanLimits,
    pub(super) faults: &'a mut Faults,
    /// Nodes so far: references that name the same tree twice make it grow twice.
    pub(super) nodes: usize,
}

impl Resolver<'_> {
    /// Replaces every reference in `spec`, the tree at `path`; none may lead to a name of `seen`. Where there is a fault the
    /// reference stays.
    ///
    /// # Errors
    /// What stands in the way of checking, such as a catalogue that cannot be reached.
    pub(super) fn resolve<'s>(
        &'s mut self,
        spec: &'s mut RetrieverSpec,
        path: String,
        mut seen: Vec<RetrieverName>,
        depth: usize,
    ) -> BoxFuture<'s, Result<()>> {
        Box::pin(async move {
            if !self.has_room(&path, depth) {
                return Ok(());
            }
            self.follow(spec, &path, &mut seen).await?;
            for (child_path, child) in spec.kind.children_mut() {
                self.resolve(child, join_path(&path, &child_path), seen.clone(), depth + 1).await?;
            }
            Ok(())
        })
    }

    /// Counts a node; false with a fault when it is one too many or too deep.
    fn has_room(&mut self, path: &str, depth: usize) -> bool {
        let PlanLimits { max_nodes, max_depth, .. } = self.limits;
        self.nodes += 1;
        if self.nodes > max_nodes {
            // Told once: what follows is as much too much.
            if self.nodes == max_nodes + 1 {
                self.faults.add(
                    path.to_owned(),
                    format!("is beyond the {max_nodes} retrievers of one tree (limits.max_retrievers)"),
                );
            }
            return false;
        }
        if depth >= max_depth {
            self.faults.add(path.to_owned(), format!("must be nested at most {max_depth} levels deep"));
            return false;
        }
        true
    }

    /// Follows a reference, and those that it leads to. The outermost name and timeout win, tags add up, and one skip is enough.
    async fn follow(&mut self, spec: &mut RetrieverSpec, path: &str, seen: &mut Vec<RetrieverName>) -> Result<()> {
        while let RetrieverKind::Ref(name) = &spec.kind {
            let ref_path = join_path(path, "ref");
            if seen.contains(name) || seen.len() >= self.limits.max_depth {
                let cycle = cycle(seen, name, self.limits.max_depth);
                self.faults.note::<()>(&ref_path, Err(cycle))?;
                return Ok(());
            }
            let stored = self.stored.get(self.context, name).await;
            let Some(stored) = self.faults.note(&ref_path, stored)? else { return Ok(()) };
            seen.push(name.clone());
            let mut found = stored.spec;
            found.name = spec.name.take().or(found.name);
            found.tags.append(&mut spec.tags);
            found.timeout = spec.timeout.or(found.timeout);
            if spec.on_error == OnError::Skip {
                found.on_error = OnError::Skip;
            }
            *spec = found;
        }
        Ok(())
    }
}

fn cycle(seen: &[RetrieverName], name: &RetrieverName, max_depth: usize) -> Error {
    let way: Vec<&str> = seen.iter().chain([name]).map(RetrieverName::as_str).collect();
    Error::FailedPrecondition {
        reason: "RETRIEVER_CYCLE",
        message: format!(
            "stored retrievers must not lead back to themselves or over {max_depth} references: {}",
            way.join(" -> ")
        ),
    }
}
