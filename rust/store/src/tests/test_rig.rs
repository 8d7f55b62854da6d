//! Append, acknowledge and flush over a controlled disk, without the rest of a store.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Instant;

use parking_lot::Mutex;

use crate::settings::{MultiDispatch, Settings};
pub(crate) use crate::testing::{SlowDisk, request};
use crate::threads::bell::Bell;
use crate::types::{AckOutcome, PutRequest, PutResult, Role, Settled, Ticket, Watermark};
use crate::write::ack::{Acks, SettledListener};
use crate::write::append::{Appender, Counters, RoleCell, Tail};
use crate::write::encode::Encoder;
use crate::write::flush::Flusher;
use crate::write::queue_offsets::LightQueues;
use crate::write::queue_offsets::QueueOffsets;
use crate::write::space::Space;
use crate::write::watermarks::Watermarks;
use mq_base::clock::Clock;
use mq_base::services::Services;
use mq_format::delay_levels::DelayLevels;
use mq_format::message::{CheckCrc, RecordView};
use mq_log::testing::TestDisk;
use mq_log::{Segments, Writer};

pub(crate) const FILE_SIZE: u64 = 4096;
pub(crate) const FAR_MS: i64 = i64::MAX;

static NEXT_TOKEN: AtomicU64 = AtomicU64::new(0);

pub(crate) struct Rig {
    pub(crate) appender: Appender,
    pub(crate) flusher: Arc<Flusher>,
    pub(crate) disk: TestDisk,
    pub(crate) parked: Parked,
    /// Where the panics of its threads and its listener are counted.
    pub(crate) services: Arc<Services>,
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
    let watermarks = Watermarks::new(Arc::clone(&log), 0);
    let acks = Arc::new(Acks::new(Arc::clone(&clock), watermarks));
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
        role: RoleCell::new(Role::Master),
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
        sending: Bell::default(),
        last_store_timestamp_ms,
        on_flushed,
    });
    let (parked, services) = (Parked::default(), Arc::default());
    let on_settled = &flusher.acks.on_settled;
    on_settled.register(parked.listener(), &services).unwrap();
    Rig {
        appender,
        flusher,
        disk,
        parked,
        services,
    }
}

/// Parked puts by token, each with the channel that its outcome comes through.
#[derive(Clone, Default)]
pub(crate) struct Parked {
    outcomes: Arc<Mutex<HashMap<u64, Outcomes>>>,
    /// Called first by the listener.
    pub(crate) hook: Arc<OnceLock<Box<dyn Fn() + Send + Sync>>>,
}

type Outcomes = mpsc::Sender<(AckOutcome, Instant)>;

impl Parked {
    /// The listener of settled puts. A token that was not parked, or that comes twice, panics.
    pub(crate) fn listener(&self) -> Box<SettledListener> {
        let parked = self.clone();
        Box::new(move |settled: &[Settled]| {
            parked.hook.get().inspect(|hook| hook());
            for Settled { token, outcome } in settled {
                let outcomes = parked.outcomes.lock().remove(token).unwrap();
                outcomes.send((*outcome, Instant::now())).unwrap();
            }
        })
    }

    /// Parks a ticket; gives its outcome and when it came.
    pub(crate) fn park(
        &self,
        park: impl FnOnce(u64) -> Option<AckOutcome>,
    ) -> mpsc::Receiver<(AckOutcome, Instant)> {
        let (outcomes, receiver) = mpsc::channel();
        let token = NEXT_TOKEN.fetch_add(1, Ordering::Relaxed);
        self.outcomes.lock().insert(token, outcomes);
        if let Some(outcome) = park(token) {
            self.listener()(&[Settled { token, outcome }]);
        }
        receiver
    }
}

impl Rig {
    /// Parks a put; gives its outcome and when it came.
    pub(crate) fn park(
        &self,
        result: &PutResult,
        deadline_ms: i64,
    ) -> mpsc::Receiver<(AckOutcome, Instant)> {
        let ticket = Self::ticket(result, deadline_ms);
        let park = |token| self.flusher.acks.park(ticket, token);
        self.parked.park(park)
    }

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
            needs: Watermark::Flushed,
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
