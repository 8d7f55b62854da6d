//! Figures of a running store: latency, rates, and RocketMQ's runtime info.

pub(crate) mod latency;
pub(crate) mod rates;
mod runtime;
