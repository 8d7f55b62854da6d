//! What readers get.

mod damage;
mod lookup;
mod reader;
