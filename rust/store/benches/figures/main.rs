//! Measures flushes next to those of the raw disk, delivery times, and memory. Prints one JSON
//! object; with `--only PART` one part of it.

mod batches;
#[path = "../common/mod.rs"]
mod common;
mod delay;
mod memory;
mod sync;

use serde_json::{Map, Value};

/// Name and function of a part.
type Part = (&'static str, fn() -> Value);

fn main() {
    let parts: [Part; 4] = [
        // First, before the others use the heap.
        ("memory", memory::figures),
        ("batches", batches::figures),
        ("sync", sync::figures),
        ("delay", delay::figures),
    ];
    let mut arguments = std::env::args().skip_while(|argument| argument != "--only");
    let only = arguments.nth(1);
    let mut report = Map::new();
    for (name, figures) in parts {
        if only.as_deref().is_none_or(|only| only == name) {
            report.insert(name.into(), figures());
        }
    }
    println!("{}", Value::Object(report));
}
