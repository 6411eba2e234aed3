
#![allow(warnings, clippy::all, unsafe_code)]
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
pub static T: [AtomicU64; 16] = [const { AtomicU64::new(0) }; 16];
pub static NAMES: [&str; 16] = ["qkv","attn_out","norm1","up","down","norm2","pack","qk","exp","pv","scale","embed","gelu","run","",""];
#[inline(always)] pub fn now() -> u64 { unsafe { core::arch::x86_64::_rdtsc() } }
#[inline(always)] pub fn add(i: usize, from: u64) { T[i].fetch_add(now() - from, Relaxed); }
pub fn report() { let total: u64 = T[13].load(Relaxed); for i in 0..16 { let t = T[i].swap(0, Relaxed); if t > 0 { println!("{:>10} {:5.1} %", NAMES[i], 100.0 * t as f64 / total as f64); } } }
pub fn env(name: &str, default: usize) -> usize { std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default) }
