//! A Python mapping of settings becomes the store's `Settings`.

use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::errors::SettingError;
use crate::store::Settings;

/// Reads fields by name (those of `mqstore.Settings`); a missing one keeps its default.
pub(super) fn read_settings(given: &Bound<'_, PyDict>) -> PyResult<Settings> {
    let mut settings = Settings::default();
    for (key, value) in given.iter() {
        let key: String = key.extract()?;
        if !assign(&mut settings, &key, &value).map_err(|cause| bad_value(&key, &value, &cause))? {
            return Err(SettingError::new_err(format!("unknown setting {key}")));
        }
    }
    Ok(settings)
}

/// Sets one field; false if there is none of that name.
fn assign(settings: &mut Settings, key: &str, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    match key {
        "commit_log_file_bytes" => settings.commit_log_file_bytes = value.extract()?,
        "consume_queue_file_bytes" => settings.consume_queue_file_bytes = value.extract()?,
        "index_slots" => settings.index_slots = value.extract()?,
        "index_entries" => settings.index_entries = value.extract()?,
        "sync_flush" => settings.sync_flush = value.extract()?,
        "flush_interval_ms" => settings.flush_interval_ms = value.extract()?,
        "flush_least_pages" => settings.flush_least_pages = value.extract()?,
        "flush_thorough_interval_ms" => settings.flush_thorough_interval_ms = value.extract()?,
        "sync_flush_timeout_ms" => settings.sync_flush_timeout_ms = value.extract()?,
        "max_message_bytes" => settings.max_message_bytes = value.extract()?,
        "delay_levels" => settings.delay_levels = value.extract()?,
        "index_enabled" => settings.index_enabled = value.extract()?,
        "allocate_step_bytes" => settings.allocate_step_bytes = value.extract()?,
        "min_free_bytes" => settings.min_free_bytes = value.extract()?,
        "heal_damage" => settings.heal_damage = value.extract()?,
        "flush_offsets_interval_ms" => settings.flush_offsets_interval_ms = value.extract()?,
        "max_transfer_memory_count" => settings.max_transfer_memory.0 = value.extract()?,
        "max_transfer_memory_bytes" => settings.max_transfer_memory.1 = value.extract()?,
        "max_transfer_disk_count" => settings.max_transfer_disk.0 = value.extract()?,
        "max_transfer_disk_bytes" => settings.max_transfer_disk.1 = value.extract()?,
        "hot_memory_percent" => settings.hot_memory_percent = value.extract()?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn bad_value(key: &str, value: &Bound<'_, PyAny>, cause: &PyErr) -> PyErr {
    SettingError::new_err(format!("{key} = {value}: {cause}"))
}
