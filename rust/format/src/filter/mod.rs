//! Which messages a consumer wants: RocketMQ's SQL92 expressions (`SqlFilter`). Pure: the one
//! evaluator for pulls, held pulls and the bits of the consume-queue extension.

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
