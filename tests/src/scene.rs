//! Scenes that may be over before they are looked at, as on a machine that stalls.

/// How often a scene is played, at most.
const MOST: usize = 10;

/// Plays a scene that looks at what lasts a moment, again and again until it was looked at in time; where that was too late the
/// scene gives none. What must hold however late it is, the scene asserts itself.
pub async fn in_time<T>(scene: impl AsyncFn() -> Option<T>) -> T {
    for _ in 0..MOST {
        if let Some(seen) = scene().await {
            return seen;
        }
    }
    panic!("{MOST} times it was over before it could be looked at")
}
