//! Python door of replication: a master's HA port, and a slave that follows one.

use std::collections::HashMap;
use std::time::Duration;

use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping};

use super::errors::raise;
use super::mappings::{bad, optional, required};
use super::store::Store;
use super::tls;
use mq_ha::protocol::{BODY_BYTES_MAX, MasterTiming, SlaveTiming};
use mq_ha::{Allowed, MasterSettings, SlaveRow, SlaveSettings, SlaveState, SlaveStatus};

fn check_process(process_id: u32) -> PyResult<()> {
    if process_id == std::process::id() {
        return Ok(());
    }
    Err(PyRuntimeError::new_err(
        "this was started before a fork; start one in the child",
    ))
}

/// The HA port of a master.
#[pyclass(frozen, module = "mqcommon._core")]
pub struct HaMaster {
    inner: mq_ha::HaMaster,
    process_id: u32,
}

#[pymethods]
impl HaMaster {
    /// A master that does not listen yet.
    #[new]
    fn new(store: &Store, settings: &Bound<'_, PyMapping>) -> PyResult<Self> {
        Ok(Self {
            inner: mq_ha::HaMaster::new(store.store(), master_settings(settings)?),
            process_id: std::process::id(),
        })
    }

    /// Listens, and serves slaves; returns the port.
    fn start(&self, py: Python<'_>) -> PyResult<u16> {
        check_process(self.process_id)?;
        let started = py.detach(|| self.inner.start());
        started.map_err(|error| match error.raw_os_error() {
            Some(errno) => PyOSError::new_err((errno, error.to_string())),
            None => PyOSError::new_err(error.to_string()),
        })
    }

    /// The connected slaves.
    fn slaves<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        check_process(self.process_id)?;
        let rows = py.detach(|| self.inner.slaves());
        rows.iter().map(|row| slave_row(py, row)).collect()
    }

    /// Shows another certificate to slaves that connect from now on.
    fn renew_tls(&self, tls: &Bound<'_, PyMapping>) -> PyResult<()> {
        self.inner.renew_tls(tls::shown(tls)?);
        Ok(())
    }

    /// Connections that were refused.
    fn refused(&self) -> u64 {
        self.inner.refused()
    }

    /// Closes the port and all connections.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        check_process(self.process_id)?;
        py.detach(|| self.inner.stop());
        Ok(())
    }
}

fn master_settings(map: &Bound<'_, PyMapping>) -> PyResult<MasterSettings> {
    let mut settings = MasterSettings::default();
    let known = MasterTiming::default();
    settings.host = optional(map, "host")?.unwrap_or_default();
    settings.port = required(map, "port")?;
    settings.timing = MasterTiming {
        heartbeat_ms: milliseconds(map, "send_heartbeat_interval_ms", known.heartbeat_ms)?,
        housekeeping_ms: milliseconds(map, "housekeeping_interval_ms", known.housekeeping_ms)?,
        batch_bytes: optional(map, "transfer_batch_bytes")?.unwrap_or(known.batch_bytes),
    };
    let batch = settings.timing.batch_bytes;
    if !(1..=BODY_BYTES_MAX).contains(&batch) {
        let allowed = format!("1 to {BODY_BYTES_MAX} bytes, which a slave's buffer takes");
        return Err(bad("transfer_batch_bytes", batch, &allowed));
    }
    settings.slaves_max = optional(map, "max_slaves")?.unwrap_or(settings.slaves_max);
    settings.bytes_per_second_max = optional(map, "max_bytes_per_second")?.unwrap_or(0);
    if let Some(texts) = optional::<Vec<String>>(map, "allow")? {
        let allowed = Allowed::parse(texts.iter().map(String::as_str));
        settings.allowed = allowed.map_err(|error| PyValueError::new_err(error.to_string()))?;
    }
    if let Some(map) = tls_of(map)? {
        settings.tls = Some(tls::shown(&map)?);
    }
    Ok(settings)
}

/// The setting "tls", if there is one.
fn tls_of<'py>(map: &Bound<'py, PyMapping>) -> PyResult<Option<Bound<'py, PyMapping>>> {
    if !map.contains("tls")? {
        return Ok(None);
    }
    let value = map.get_item("tls")?;
    match value.is_none() {
        true => Ok(None),
        false => Ok(Some(value.cast_into()?)),
    }
}

fn milliseconds(map: &Bound<'_, PyMapping>, key: &str, default: i64) -> PyResult<i64> {
    let value = optional(map, key)?.unwrap_or(default);
    match value {
        1.. => Ok(value),
        _ => Err(bad(key, value, "at least 1 millisecond")),
    }
}

fn slave_row<'py>(py: Python<'py>, row: &SlaveRow) -> PyResult<Bound<'py, PyDict>> {
    let state = match row.acked {
        None => "joining",
        Some(_) if row.is_out_of_range => "out_of_range",
        Some(_) => "transfer",
    };
    let dict = PyDict::new(py);
    dict.set_item("address", row.address.to_string())?;
    dict.set_item("state", state)?;
    dict.set_item("acked_offset", or_minus_one(row.acked))?;
    dict.set_item("sent_offset", or_minus_one(row.sent))?;
    dict.set_item("lag_bytes", row.lag_bytes)?;
    dict.set_item("lag_ms", row.lag_ms.unwrap_or(-1))?;
    dict.set_item("bytes_per_second", row.bytes_per_second)?;
    dict.set_item("bytes_sent", row.bytes_sent)?;
    dict.set_item("seconds", row.connected_ms as f64 / 1_000.0)?;
    Ok(dict)
}

fn or_minus_one(offset: Option<u64>) -> i64 {
    offset.map_or(-1, u64::cast_signed)
}

/// Copies a master's log into a store in the role of a slave.
#[pyclass(frozen, module = "mqcommon._core")]
pub struct HaSlave {
    inner: mq_ha::HaSlave,
    process_id: u32,
}

#[pymethods]
impl HaSlave {
    /// A slave without a master.
    #[new]
    fn new(store: &Store, settings: &Bound<'_, PyMapping>) -> PyResult<Self> {
        Ok(Self {
            inner: mq_ha::HaSlave::new(store.store(), slave_settings(settings)?),
            process_id: std::process::id(),
        })
    }

    /// Starts the thread.
    fn start(&self) -> PyResult<()> {
        check_process(self.process_id)?;
        self.inner.start().map_err(raise)
    }

    /// Follows the master at this HA address; None ends that.
    #[pyo3(signature = (address, first_offset=None))]
    fn set_master(
        &self,
        py: Python<'_>,
        address: Option<String>,
        first_offset: Option<u64>,
    ) -> PyResult<()> {
        check_process(self.process_id)?;
        py.detach(|| self.inner.set_master(address, first_offset));
        Ok(())
    }

    /// Uses another certificate, or trusts another, from the next connection on.
    fn renew_tls(&self, tls: &Bound<'_, PyMapping>) -> PyResult<()> {
        self.inner.renew_tls(tls::renewed(tls)?);
        Ok(())
    }

    /// Says where the master's log begins and ends.
    fn note_master_range(&self, min_offset: u64, max_offset: u64) {
        self.inner.note_master_range(min_offset, max_offset);
    }

    /// State and figures of the slave.
    fn status<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        check_process(self.process_id)?;
        let status = py.detach(|| self.inner.status());
        status_row(py, &status)
    }

    /// Ends the connection and the thread.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        check_process(self.process_id)?;
        py.detach(|| self.inner.stop());
        Ok(())
    }
}

fn slave_settings(map: &Bound<'_, PyMapping>) -> PyResult<SlaveSettings> {
    let mut settings = SlaveSettings::default();
    let known = SlaveTiming::default();
    settings.timing = SlaveTiming {
        heartbeat_ms: milliseconds(map, "send_heartbeat_interval_ms", known.heartbeat_ms)?,
        housekeeping_ms: milliseconds(map, "housekeeping_interval_ms", known.housekeeping_ms)?,
    };
    settings.ack_flushed = optional(map, "ack_flushed")?.unwrap_or(false);
    if let Some(map) = tls_of(map)? {
        settings.tls = Some(tls::renewed(&map)?);
    }
    let times = HashMap::from([
        ("connect_timeout_ms", &mut settings.connect_timeout),
        ("retry_interval_ms", &mut settings.retry_interval),
    ]);
    for (key, time) in times {
        let default = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        *time = Duration::from_millis(milliseconds(map, key, default)?.unsigned_abs());
    }
    Ok(settings)
}

fn status_row<'py>(py: Python<'py>, status: &SlaveStatus) -> PyResult<Bound<'py, PyDict>> {
    let state = match status.state {
        SlaveState::Idle => "idle",
        SlaveState::Connecting => "connecting",
        SlaveState::Waiting => "waiting",
        SlaveState::Verifying => "verifying",
        SlaveState::Transfer => "transfer",
        SlaveState::Ahead => "ahead",
        SlaveState::Below => "below",
        SlaveState::Diverged => "diverged",
        SlaveState::Refused => "refused",
        SlaveState::Stopped => "stopped",
    };
    let master = or_minus_one(status.master_offset);
    let lag = match status.master_offset {
        Some(end) => end.saturating_sub(status.offset).cast_signed(),
        None => -1,
    };
    let dict = PyDict::new(py);
    dict.set_item("address", &status.address)?;
    dict.set_item("state", state)?;
    dict.set_item("reason", &status.reason)?;
    dict.set_item("offset", status.offset)?;
    dict.set_item("master_offset", master)?;
    dict.set_item("lag_bytes", lag)?;
    dict.set_item("lag_ms", status.lag_ms.unwrap_or(-1))?;
    dict.set_item("reported_offset", or_minus_one(status.reported))?;
    dict.set_item("bytes_per_second", status.bytes_per_second)?;
    dict.set_item("bytes_received", status.bytes_received)?;
    dict.set_item("connects", status.connects)?;
    dict.set_item("diverged_at", or_minus_one(status.diverged_at))?;
    dict.set_item("last_read_ms", status.last_read_ms)?;
    dict.set_item("last_write_ms", status.last_write_ms)?;
    Ok(dict)
}
