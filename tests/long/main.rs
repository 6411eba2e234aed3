//! Long: servers under random load, kills and malformed requests. Every test is ignored unless asked for (`make test-long`).
//!
//! `TOLLER_LONG_SECONDS` is how long each of them goes on (default 120), `TOLLER_LONG_SEED` repeats the random choices of a run
//! that printed it. What clients do side by side still falls together differently each time.

mod fuzz;
mod process;
mod raw_http2;
mod restart_loop;
mod run;
mod soak;
