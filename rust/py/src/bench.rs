//! Python door of `client::bench`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use pyo3::exceptions::{
    PyConnectionError, PyKeyboardInterrupt, PyPermissionError, PyRuntimeError, PyValueError,
};
use pyo3::prelude::*;
use serde::de::DeserializeOwned;

use mq_bench::{self as load, BenchError, Report};

/// Interval between two checks for Ctrl-C.
const POLL: Duration = Duration::from_millis(50);

/// Runs a load of this kind: "produce", "consume", "latency" or "connect"; settings and report
/// are JSON.
#[pyfunction]
pub fn bench(py: Python<'_>, kind: &str, settings: &str) -> PyResult<String> {
    match kind {
        "produce" => run(py, settings, load::produce),
        "consume" => run(py, settings, load::consume),
        "latency" => run(py, settings, load::latency),
        "connect" => run(py, settings, load::connect),
        other => Err(PyValueError::new_err(format!("no load is called {other}"))),
    }
}

/// Runs the load on a thread of its own and checks for signals meanwhile. One Ctrl-C ends the load
/// and returns the report so far; KeyboardInterrupt is raised only if the load does not end. An
/// exception from another signal handler also ends the load, and is raised.
fn run<S: DeserializeOwned + Send + 'static>(
    py: Python<'_>,
    settings: &str,
    load: fn(&S, &AtomicBool) -> Result<Report, BenchError>,
) -> PyResult<String> {
    let settings: S =
        serde_json::from_str(settings).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let stop = Arc::new(AtomicBool::new(false));
    let (sender, mut outcome) = channel();
    let begun = std::thread::Builder::new().spawn({
        let stop = stop.clone();
        // The receiver is gone only if a second Ctrl-C ended the wait.
        move || drop(sender.send(load(&settings, &stop)))
    });
    begun.map_err(|cause| to_python(BenchError::Threads { threads: 1, cause }))?;
    loop {
        let outcome = &mut outcome;
        match py.detach(move || outcome.recv_timeout(POLL)) {
            Ok(report) => return to_json(report.map_err(to_python)?),
            Err(RecvTimeoutError::Timeout) => {
                if let Err(signal) = py.check_signals() {
                    let was_asked = stop.swap(true, Ordering::Relaxed);
                    if was_asked || !signal.is_instance_of::<PyKeyboardInterrupt>(py) {
                        return Err(signal);
                    }
                }
            }
            Err(RecvTimeoutError::Disconnected) => return Err(to_python(BenchError::Worker)),
        }
    }
}

fn to_json(report: Report) -> PyResult<String> {
    serde_json::to_string(&report).map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

fn to_python(error: BenchError) -> PyErr {
    let text = error.to_string();
    match error {
        BenchError::Setting { .. }
        | BenchError::Name { .. }
        | BenchError::Both(..)
        | BenchError::NoNamesrv
        | BenchError::Tls(_)
        | BenchError::OpenFiles { .. } => PyValueError::new_err(text),
        BenchError::Io { .. }
        | BenchError::Namesrv { .. }
        | BenchError::WrongDoor { .. }
        | BenchError::Broker { .. } => PyConnectionError::new_err(text),
        error if error.is_denied() => PyPermissionError::new_err(text),
        _ => PyRuntimeError::new_err(text),
    }
}
