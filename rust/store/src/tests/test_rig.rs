//! Append, acknowledge and flush over a controlled disk, without the rest of a store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64};

use parking_lot::Mutex;

use crate::settings::{MultiDispatch, Settings};
pub(crate) use crate::testing::{SlowDisk, request};
use crate::types::{PutRequest, PutResult, Ticket};
use crate::write::ack::Acks;
use crate::write::append::{Appender, Counters, Tail};
use crate::write::encode::Encoder;
use crate::write::flush::Flusher;
use crate::write::queue_offsets::LightQueues;
use crate::write::queue_offsets::QueueOffsets;
use crate::write::space::Space;
use mq_base::clock::Clock;
use mq_format::delay_levels::DelayLevels;
use mq_format::message::{CheckCrc, RecordView};
use mq_log::testing::TestDisk;
use mq_log::{Segments, Writer};

pub(crate) const FILE_SIZE: u64 = 4096;
pub(crate) const FAR_MS: i64 = i64::MAX;

pub(crate) struct Rig {
    pub(crate) appender: Appender,
    pub(crate) flusher: Arc<Flusher>,
    pub(crate) disk: TestDisk,
}

pub(crate) fn rig(clock: Arc<dyn Clock>) -> Rig {
    rig_of_files(FILE_SIZE, clock)
}

/// A rig with log files of another size.
pub(crate) fn rig_of_files(file_size: u64, clock: Arc<dyn Clock>) -> Rig {
    rig_on(TestDisk::new(), file_size, clock)
}

/// A rig on a disk that may contain files.
pub(crate) fn rig_on(disk: TestDisk, file_size: u64, clock: Arc<dyn Clock>) -> Rig {
    let encoder = Encoder {
        max_message_bytes: 3000,
        levels: DelayLevels::parse("1s 5s").unwrap(),
        multi_dispatch: MultiDispatch::default(),
        light_queues: Arc::new(LightQueues::new(MultiDispatch::default())),
    };
    rig_of(disk, file_size, encoder, clock)
}

/// A rig with the defaults of Java's broker, except for the file size, and with light queues.
pub(crate) fn java_rig(file_size: u64, clock: Arc<dyn Clock>) -> Rig {
    let settings = Settings::default();
    let multi_dispatch = MultiDispatch {
        enabled: true,
        lmq_enabled: true,
        ..settings.multi_dispatch
    };
    let encoder = Encoder {
        max_message_bytes: settings.max_message_bytes,
        levels: DelayLevels::parse(&settings.delay_levels).unwrap(),
        multi_dispatch,
        light_queues: Arc::new(LightQueues::new(multi_dispatch)),
    };
    rig_of(TestDisk::new(), file_size, encoder, clock)
}

fn rig_of(disk: TestDisk, file_size: u64, encoder: Encoder, clock: Arc<dyn Clock>) -> Rig {
    let log = Arc::new(Segments::open(disk.files(), file_size).unwrap());
    let acks = Arc::new(Acks::new(Arc::clone(&clock), 0));
    let last_store_timestamp_ms = Arc::new(AtomicI64::new(0));
    let space = Arc::new(Space::new("/".as_ref(), Some(0)));
    let writer = Writer::new(Arc::clone(&log), 1024, Arc::clone(&clock));
    let appender = Appender {
        encoder,
        clock,
        acks: Arc::clone(&acks),
        space: Arc::clone(&space),
        last_store_timestamp_ms: Arc::clone(&last_store_timestamp_ms),
        busy_ms: 1_000,
        locked_at_ms: AtomicI64::new(0),
        counters: Counters::default(),
        stall: writer.stall(),
        tail: Mutex::new(Tail {
            writer,
            queue_offsets: QueueOffsets::default(),
            is_closed: false,
        }),
    };
    let on_flushed = Box::new(|_| ());
    let flusher = Arc::new(Flusher {
        log,
        acks,
        space,
        lacks_room: AtomicBool::new(false),
        appended: Arc::default(),
        last_store_timestamp_ms,
        on_flushed,
    });
    Rig {
        appender,
        flusher,
        disk,
    }
}

impl Rig {
    pub(crate) fn put(&self, body: &[u8]) -> PutResult {
        self.put_one(&request("T", body))
    }

    pub(crate) fn put_one(&self, request: &PutRequest<'_>) -> PutResult {
        self.appender.put_one(request).unwrap()
    }

    pub(crate) fn put_batch(&self, request: &PutRequest<'_>) -> PutResult {
        self.appender.put_batch(request).unwrap()
    }

    pub(crate) fn ticket(result: &PutResult, deadline_ms: i64) -> Ticket {
        Ticket {
            end_offset: result.physical_offset + i64::from(result.size_bytes),
            deadline_ms,
        }
    }

    pub(crate) fn with_record<R>(&self, offset: i64, check: impl FnOnce(RecordView<'_>) -> R) -> R {
        let mut bytes = vec![0; FILE_SIZE as usize];
        self.flusher
            .log
            .read_at(offset.cast_unsigned(), &mut bytes)
            .unwrap();
        check(RecordView::parse(&bytes, CheckCrc::Yes).unwrap())
    }
}
