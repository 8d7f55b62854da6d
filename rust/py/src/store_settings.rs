//! Converts a Python mapping to the store's `Settings`.

use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::errors::SettingError;
use super::store_arguments::named_role;
use mq_log::fs;
use mq_store::{Cleaning, Settings};

/// Sets the permission bits of the store files that this process creates.
#[pyfunction]
pub(super) fn set_file_mode(mode: u32) {
    fs::set_file_mode(mode);
}

/// Reads fields by their names in `mqstore.Settings`; a missing one keeps its default.
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
        "commit_log_path" => settings.commit_log_path = value.extract()?,
        "commit_log_file_bytes" => settings.commit_log_file_bytes = value.extract()?,
        "consume_queue_file_bytes" => settings.consume_queue_file_bytes = value.extract()?,
        "index_slots" => settings.index_slots = value.extract()?,
        "index_entries" => settings.index_entries = value.extract()?,
        "role" => settings.role = named_role(&value.extract::<String>()?)?,
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
        "repair_damage" => settings.repair_damage = value.extract()?,
        "check_crc_on_recover" => settings.check_crc_on_recover = value.extract()?,
        "flush_offsets_interval_ms" => settings.flush_offsets_interval_ms = value.extract()?,
        "max_transfer_memory_count" => settings.max_transfer_memory.0 = value.extract()?,
        "max_transfer_memory_bytes" => settings.max_transfer_memory.1 = value.extract()?,
        "max_transfer_disk_count" => settings.max_transfer_disk.0 = value.extract()?,
        "max_transfer_disk_bytes" => settings.max_transfer_disk.1 = value.extract()?,
        "hot_memory_percent" => settings.hot_memory_percent = value.extract()?,
        "query_count_max" => settings.query_count_max = value.extract()?,
        "page_cache_busy_ms" => settings.page_cache_busy_ms = value.extract()?,
        "flush_delay_offsets_interval_ms" => {
            settings.flush_delay_offsets_interval_ms = value.extract()?;
        }
        _ => {
            return Ok(assign_cleaning(&mut settings.cleaning, key, value)?
                || assign_queues(settings, key, value)?);
        }
    }
    Ok(true)
}

fn assign_cleaning(to: &mut Cleaning, key: &str, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    match key {
        "reserved_hours" => to.reserved_hours = value.extract()?,
        "delete_when" => to.delete_when = value.extract()?,
        "disk_max_used_percent" => to.disk_max_used_percent = value.extract()?,
        "disk_forcible_percent" => to.disk_forcible_percent = value.extract()?,
        "disk_warning_percent" => to.disk_warning_percent = value.extract()?,
        "clean_forcibly_enabled" => to.forcibly_enabled = value.extract()?,
        "clean_interval_ms" => to.interval_ms = value.extract()?,
        "delete_log_pause_ms" => to.log_pause_ms = value.extract()?,
        "delete_queue_pause_ms" => to.queue_pause_ms = value.extract()?,
        "delete_retry_ms" => to.retry_ms = value.extract()?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn assign_queues(to: &mut Settings, key: &str, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    match key {
        "queue_ext_enabled" => to.queue_ext.enabled = value.extract()?,
        "queue_ext_file_bytes" => to.queue_ext.file_bytes = value.extract()?,
        "queue_ext_bitmap_bits" => to.queue_ext.bitmap_bits = value.extract()?,
        "multi_dispatch_enabled" => to.multi_dispatch.enabled = value.extract()?,
        "lmq_enabled" => to.multi_dispatch.lmq_enabled = value.extract()?,
        "lmq_queues_max" => to.multi_dispatch.lmq_queues_max = value.extract()?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn bad_value(key: &str, value: &Bound<'_, PyAny>, cause: &PyErr) -> PyErr {
    SettingError::new_err(format!("{key} = {value}: {cause}"))
}
