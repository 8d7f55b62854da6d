//! The core's log lines, queued for Python's logging.
//!
//! A thread of the core never takes the GIL to log: it might hold the put lock. It puts the line
//! into a bounded queue, which a Python thread empties (`mqcommon/core_logs.py`).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use log::{Level, LevelFilter, Log, Metadata, Record};
use parking_lot::{Condvar, Mutex};
use pyo3::prelude::*;

use super::signals::check_interval;

/// Lines kept for a slow reader; later ones are counted and dropped.
const LINES_MAX: usize = 1_024;
/// Level as Python numbers it, Rust module, text.
type Line = (u8, String, String);

static QUEUE: Queue = Queue {
    lines: Mutex::new(Lines {
        waiting: VecDeque::new(),
        dropped: 0,
    }),
    arrived: Condvar::new(),
};

struct Queue {
    lines: Mutex<Lines>,
    arrived: Condvar,
}

struct Lines {
    waiting: VecDeque<Line>,
    dropped: usize,
}

impl Lines {
    fn next(&mut self) -> Option<Line> {
        let line = self.waiting.pop_front();
        if line.is_none() && self.dropped > 0 {
            let text = format!(
                "{} log lines were dropped",
                std::mem::take(&mut self.dropped)
            );
            return Some((30, module_path!().into(), text));
        }
        line
    }
}

impl Log for Queue {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // Log lines of the libraries under the core are dropped.
        metadata.target().starts_with("mq_")
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let mut lines = self.lines.lock();
        if lines.waiting.len() < LINES_MAX {
            let text = record.args().to_string();
            lines
                .waiting
                .push_back((python_level(record.level()), record.target().into(), text));
        } else {
            lines.dropped += 1;
        }
        drop(lines);
        self.arrived.notify_one();
    }

    fn flush(&self) {}
}

fn python_level(level: Level) -> u8 {
    match level {
        Level::Error => 40,
        Level::Warn => 30,
        Level::Info => 20,
        Level::Debug | Level::Trace => 10,
    }
}

/// Sends the core's log lines to the queue. A second call changes nothing.
pub(super) fn install() {
    if log::set_logger(&QUEUE).is_ok() {
        log::set_max_level(LevelFilter::Info);
    }
}

/// Waits for the core's next log line, at most `timeout` seconds, with the GIL released.
#[pyfunction]
pub fn next_log(py: Python<'_>, timeout: f64) -> PyResult<Option<Line>> {
    let timeout = Duration::try_from_secs_f64(timeout.max(0.0)).unwrap_or(Duration::MAX);
    let deadline = Instant::now().checked_add(timeout);
    let slice = check_interval();
    loop {
        let line = py.detach(|| {
            let mut lines = QUEUE.lines.lock();
            let left = deadline.map_or(slice, |at| at.saturating_duration_since(Instant::now()));
            if lines.waiting.is_empty() && lines.dropped == 0 && !left.is_zero() {
                QUEUE.arrived.wait_for(&mut lines, left.min(slice));
            }
            lines.next()
        });
        if line.is_some() || deadline.is_some_and(|at| at <= Instant::now()) {
            return Ok(line);
        }
        py.check_signals()?;
    }
}
