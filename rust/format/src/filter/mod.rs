//! RocketMQ's SQL92 expressions (`SqlFilter`), which select the messages of a consumer. No I/O: the
//! same evaluator serves pulls, long polls and the bits of the consume queue extension.

mod error;
mod evaluate;
mod expression;
mod number;
mod parse;
mod sql;
#[cfg(test)]
mod tests;
mod token;

pub use error::SqlError;
pub use sql::Sql;
