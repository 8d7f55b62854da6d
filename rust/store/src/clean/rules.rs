//! Decides when files are deleted, by RocketMQ's rules
//! (`DefaultMessageStore.CleanCommitLogService`). Reads no clock and no disk.

use std::time::Duration;

use crate::settings::Cleaning;
use crate::types::StoreError;
use crate::write::space::Pressure;
use mq_base::clock::local_time;

/// Runs per request of an operator.
pub(crate) const MANUAL_RUNS: u32 = 20;
/// Most log files deleted per run.
pub(crate) const FILES_PER_RUN: usize = 10;
/// Time after the open before the first run.
pub(crate) const FIRST_RUN_MS: i64 = 60_000;

const HOUR_MS: i64 = 3_600_000;

/// Which files may be deleted now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leave {
    /// No file.
    None,
    /// Files older than the reserved time.
    Expired,
    /// All files except the last one.
    Any,
}

/// The checked cleaning settings.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    hours: Vec<i32>,
    reserved_ms: i64,
    is_forcible: bool,
    pub(crate) log_pause: Duration,
    pub(crate) queue_pause: Duration,
    pub(crate) retry_ms: i64,
}

impl Rules {
    /// Checks the settings; fails if `deleteWhen` names no hours.
    pub(crate) fn new(settings: &Cleaning) -> Result<Self, StoreError> {
        let hours = parse_hours(&settings.delete_when).ok_or_else(|| StoreError::Setting {
            key: "deleteWhen",
            value: settings.delete_when.clone(),
            what: "hours of the day, 00 to 23, separated by ;",
        })?;
        let hours_ms = i64::try_from(settings.reserved_hours).ok();
        Ok(Self {
            hours,
            // On overflow, files never expire.
            reserved_ms: hours_ms
                .and_then(|hours| hours.checked_mul(HOUR_MS))
                .unwrap_or(i64::MAX),
            is_forcible: settings.forcibly_enabled,
            log_pause: Duration::from_millis(settings.log_pause_ms),
            queue_pause: Duration::from_millis(settings.queue_pause_ms),
            retry_ms: settings.retry_ms.cast_signed(),
        })
    }

    /// Which files may be deleted at this time and disk usage; `is_manual` if an operator asked.
    pub(crate) fn leave(&self, wall_ms: i64, pressure: Pressure, is_manual: bool) -> Leave {
        if pressure >= Pressure::Forcible && self.is_forcible {
            return Leave::Any;
        }
        let is_hour = self.hours.contains(&local_time(wall_ms).tm_hour);
        if is_hour || is_manual || pressure >= Pressure::High {
            Leave::Expired
        } else {
            Leave::None
        }
    }

    /// Whether a file last written at `written_ms` is older than the reserved time.
    pub(crate) fn is_expired(&self, written_ms: i64, wall_ms: i64) -> bool {
        wall_ms >= written_ms.saturating_add(self.reserved_ms)
    }
}

fn parse_hours(text: &str) -> Option<Vec<i32>> {
    let hour = |part: &str| {
        part.trim()
            .parse()
            .ok()
            .filter(|hour| (0..24).contains(hour))
    };
    let parts = text.split(';').filter(|part| !part.trim().is_empty());
    let hours: Vec<i32> = parts.map(hour).collect::<Option<_>>()?;
    (!hours.is_empty()).then_some(hours)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(delete_when: &str, forcibly_enabled: bool) -> Rules {
        Rules::new(&Cleaning {
            delete_when: delete_when.into(),
            forcibly_enabled,
            ..Cleaning::default()
        })
        .unwrap()
    }

    #[test]
    fn expired_files_are_deleted_during_each_named_hour() {
        let rules = rules("04; 23", true);
        let quiet = |wall_ms| rules.leave(wall_ms, Pressure::None, false);
        let mut seen = [Leave::None; 24];
        for half_hour in 0..48 {
            let wall_ms = half_hour * HOUR_MS / 2;
            let hour = usize::try_from(local_time(wall_ms).tm_hour).unwrap();
            seen[hour] = quiet(wall_ms);
        }
        for (hour, leave) in seen.into_iter().enumerate() {
            let expected = match hour {
                4 | 23 => Leave::Expired,
                _ => Leave::None,
            };
            assert_eq!(leave, expected, "{hour}");
        }
    }

    #[test]
    fn a_full_disk_or_an_operator_overrides_the_hour() {
        let other_hour = format!("{:02}", (local_time(0).tm_hour + 1) % 24);
        let rules_of = |forcible| rules(&other_hour, forcible);
        let leave = |pressure| rules_of(true).leave(0, pressure, false);
        assert_eq!(leave(Pressure::None), Leave::None);
        assert_eq!(leave(Pressure::High), Leave::Expired);
        assert_eq!(
            [leave(Pressure::Forcible), leave(Pressure::Full)],
            [Leave::Any; 2]
        );
        assert_eq!(
            rules_of(false).leave(0, Pressure::Full, false),
            Leave::Expired
        );
        assert_eq!(
            rules_of(true).leave(0, Pressure::None, true),
            Leave::Expired
        );
    }

    #[test]
    fn a_file_expires_after_the_reserved_hours() {
        let rules = rules("04", true);
        assert!(rules.is_expired(0, 72 * HOUR_MS));
        assert!(!rules.is_expired(1, 72 * HOUR_MS));
        let forever = Cleaning {
            reserved_hours: u64::MAX,
            ..Cleaning::default()
        };
        assert!(!Rules::new(&forever).unwrap().is_expired(0, i64::MAX - 1));
    }

    #[test]
    fn settings_that_name_no_hours_are_refused() {
        for text in ["", ";", "24", "4am", "04,05", "-1"] {
            let settings = Cleaning {
                delete_when: text.into(),
                ..Cleaning::default()
            };
            let error = Rules::new(&settings).unwrap_err().to_string();
            assert!(error.contains("deleteWhen"), "{error}");
        }
        assert_eq!(parse_hours("4;05"), Some(vec![4, 5]));
    }
}
