//! Ways to make the server fail, and a count of what it was asked.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;

/// What is to go wrong. Callers are told apart by their API key; an empty key stands for those who bring none.
#[derive(Debug, Default)]
pub struct Faults(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    calls: HashMap<String, u64>,
    refusals: u32,
    delay: Duration,
    /// After which call of a caller the answers come later, and by how much.
    delay_after: HashMap<String, (u64, Duration)>,
    /// Calls that a caller may still make before nothing of it arrives any more.
    calls_left: HashMap<String, u64>,
    /// Callers of whose last call the answer is lost as well.
    loses_answer: HashMap<String, bool>,
    /// The one call of a caller of which the answer is lost.
    lost: HashMap<String, u64>,
    /// Points that a removal or a change of payloads may be about; none is any number.
    most_points: Option<usize>,
}

/// What becomes of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is answered, after a while.
    Answered(Duration),
    /// It is refused without having an effect.
    Refused,
    /// It has its effect, and is then refused.
    AnswerLost,
}

impl Faults {
    /// Refuse the next calls with UNAVAILABLE, whoever makes them.
    pub fn refuse(&self, calls: u32) {
        self.0.lock().refusals = calls;
    }

    /// Answer every call later by this much.
    pub fn delay(&self, delay: Duration) {
        self.0.lock().delay = delay;
    }

    /// Answer the calls of one caller later by this much, after some further ones.
    pub fn delay_after(&self, api_key: &str, calls: u64, delay: Duration) {
        let mut state = self.0.lock();
        let so_far = state.calls.get(api_key).copied().unwrap_or_default();
        state.delay_after.insert(api_key.to_owned(), (so_far + calls, delay));
    }

    /// Let so many further calls of a caller through, and no others: to everybody else, that caller is then gone. With
    /// `loses_answer`, the first call that is not let through has its effect still.
    pub fn cut_off(&self, api_key: &str, calls: u64, loses_answer: bool) {
        let mut state = self.0.lock();
        state.calls_left.insert(api_key.to_owned(), calls);
        state.loses_answer.insert(api_key.to_owned(), loses_answer);
    }

    /// Lose the answer of one call of a caller, after so many further ones; what comes after it is answered again.
    pub fn lose_answer(&self, api_key: &str, after: u64) {
        let mut state = self.0.lock();
        let so_far = state.calls.get(api_key).copied().unwrap_or_default();
        state.lost.insert(api_key.to_owned(), so_far + after + 1);
    }

    /// From now on, what removes points or changes their payloads takes too long when it is about more of them than this, and has no
    /// effect.
    pub fn change_at_most(&self, points: usize) {
        self.0.lock().most_points = Some(points);
    }

    pub(crate) fn most_points(&self) -> Option<usize> {
        self.0.lock().most_points
    }

    /// How many calls a caller has made.
    pub fn calls(&self, api_key: &str) -> u64 {
        self.0.lock().calls.get(api_key).copied().unwrap_or_default()
    }

    /// Notes a call and says what becomes of it.
    pub(crate) fn fate(&self, api_key: &str) -> Fate {
        let mut state = self.0.lock();
        let calls = state.calls.entry(api_key.to_owned()).or_default();
        *calls += 1;
        let calls = *calls;
        if state.refusals > 0 {
            state.refusals -= 1;
            return Fate::Refused;
        }
        if state.lost.get(api_key) == Some(&calls) {
            return Fate::AnswerLost;
        }
        if let Some(left) = state.calls_left.get_mut(api_key) {
            if *left == 0 {
                let loses_answer = state.loses_answer.insert(api_key.to_owned(), false).unwrap_or_default();
                return if loses_answer { Fate::AnswerLost } else { Fate::Refused };
            }
            *left -= 1;
        }
        let own_delay = state.delay_after.get(api_key).filter(|(after, _)| calls > *after).map(|(_, delay)| *delay);
        Fate::Answered(own_delay.unwrap_or(state.delay))
    }
}
