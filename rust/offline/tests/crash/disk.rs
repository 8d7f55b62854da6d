//! The possible states of a recorded directory after a power loss.
//!
//! A page of a file holds its last synced content plus any number of later writes, in their order.
//! Each page is independent; in a torn page each sector is. Names are durable after a sync of their
//! directory. Of the other names, all later than some moment are lost: one moment for the whole
//! file system, as with a journal, or one per directory.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::random::Random;
use crate::tape::{Event, Node, Recording, Tree};

const PAGE: usize = 4096;
const SECTOR: usize = 512;

/// Which names a power loss takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// All names later than one moment, as in a journaling file system.
    Journal,
    /// All names later than one moment, which differs between directories.
    Loose,
}

/// A write to one page that is not yet durable.
#[derive(Debug)]
struct Piece {
    index: usize,
    from: usize,
    bytes: Vec<u8>,
    /// A sync of this piece failed. No later sync makes it durable.
    is_lost: bool,
}

#[derive(Debug, Default)]
struct Content {
    durable: Vec<u8>,
    pieces: BTreeMap<u64, Vec<Piece>>,
    /// Changes of the length since the last sync.
    lengths: Vec<(usize, u64)>,
}

/// A change of a name.
#[derive(Debug)]
struct Named {
    index: usize,
    /// The new name and its node; None for a removal.
    put: Option<(PathBuf, Node)>,
    removed: Option<PathBuf>,
    is_durable: bool,
}

/// A directory whose operations are replayed.
#[derive(Debug)]
pub struct Disk {
    start: Tree,
    contents: HashMap<u64, Content>,
    live: BTreeMap<PathBuf, Node>,
    named: Vec<Named>,
    /// Names before this one are durable if the file system has a journal.
    journal_from: usize,
}

/// The losses of an image, so that tests can check that images differ.
#[derive(Debug, Default, Clone, Copy)]
pub struct Losses {
    pub pieces: usize,
    pub torn_pages: usize,
    pub names: usize,
}

impl Disk {
    pub fn new(recording: &Recording) -> Self {
        let start = recording.start.clone();
        let content = |(file, bytes): (&u64, &Vec<u8>)| {
            let durable = bytes.clone();
            let content = Content {
                durable,
                ..Content::default()
            };
            (*file, content)
        };
        Self {
            contents: start.contents.iter().map(content).collect(),
            live: start.names.iter().cloned().collect(),
            start,
            named: Vec::new(),
            journal_from: 0,
        }
    }

    /// Applies the next event.
    pub fn play(&mut self, index: usize, event: &Event) {
        match event {
            Event::Create { path, file } => self.put(index, path, Node::File(*file)),
            Event::CreateDirectory { path } => self.put(index, path, Node::Directory),
            Event::Link { from, to } => self.put(index, to, self.live[from]),
            Event::Rename { from, to } => {
                let node = self.live.remove(from).unwrap();
                self.live.insert(to.clone(), node);
                self.name(index, Some((to.clone(), node)), Some(from.clone()));
            }
            Event::Remove { path } => {
                self.live.remove(path).unwrap();
                self.name(index, None, Some(path.clone()));
            }
            Event::SyncDirectory { path, began } => self.sync_names(path, *began),
            Event::Write {
                file,
                offset,
                bytes,
            } => self.content(*file).write(index, *offset, bytes),
            Event::Zero { file, from, to } => {
                let zeros = vec![0; (to - from) as usize];
                self.content(*file).write(index, *from, &zeros);
            }
            Event::SetLength { file, length } => {
                self.content(*file).lengths.push((index, *length));
            }
            Event::Sync {
                file,
                from,
                to,
                began,
                is_lost,
            } => {
                let pages = from / PAGE as u64..to.div_ceil(PAGE as u64);
                self.content(*file).sync(pages, *began, *is_lost);
            }
        }
    }

    fn content(&mut self, file: u64) -> &mut Content {
        self.contents.entry(file).or_default()
    }

    fn put(&mut self, index: usize, path: &Path, node: Node) {
        self.live.insert(path.to_owned(), node);
        self.name(index, Some((path.to_owned(), node)), None);
    }

    fn name(&mut self, index: usize, put: Option<(PathBuf, Node)>, removed: Option<PathBuf>) {
        let is_durable = false;
        self.named.push(Named {
            index,
            put,
            removed,
            is_durable,
        });
    }

    fn sync_names(&mut self, directory: &Path, began: usize) {
        self.journal_from = self.journal_from.max(began);
        for named in &mut self.named {
            named.is_durable |= named.index < began && named.directory() == directory;
        }
    }

    /// Creates, in the empty directory `target`, one possible state after a power loss now.
    pub fn image(&self, target: &Path, names: Names, random: &mut Random) -> Losses {
        let mut losses = Losses::default();
        let tears = random.one_in(3);
        let end = self.named.last().map_or(0, |named| named.index + 1);
        let cut = pick(random, self.journal_from.min(end), end);
        let kept = self.kept_names(names, cut, random, &mut losses);
        for (path, node) in &kept {
            match node {
                Node::Directory if has_parent(&kept, path) => {
                    fs::create_dir(target.join(path)).unwrap();
                }
                Node::File(file) if has_parent(&kept, path) => {
                    let content = self.contents.get(file);
                    // The length of a file is journaled before its name.
                    let lengths = match names {
                        Names::Journal => cut,
                        Names::Loose => usize::MAX,
                    };
                    let bytes = content.map_or_else(Vec::new, |content| {
                        content.image(lengths, tears, random, &mut losses)
                    });
                    write_sparse(&target.join(path), &bytes);
                }
                _ => {}
            }
        }
        losses
    }

    fn kept_names(
        &self,
        names: Names,
        cut: usize,
        random: &mut Random,
        losses: &mut Losses,
    ) -> BTreeMap<PathBuf, Node> {
        let mut kept: BTreeMap<_, _> = self.start.names.iter().cloned().collect();
        let mut cuts: HashMap<PathBuf, usize> = HashMap::new();
        let end = self.named.last().map_or(0, |named| named.index + 1);
        for named in &self.named {
            let directory = named.directory().to_owned();
            let cut = match names {
                Names::Journal => cut,
                Names::Loose => *cuts
                    .entry(directory)
                    .or_insert_with(|| pick(random, 0, end)),
            };
            let is_kept = named.is_durable || named.index < cut;
            if !is_kept {
                losses.names += 1;
                continue;
            }
            if let Some(removed) = &named.removed {
                kept.remove(removed);
            }
            if let Some((path, node)) = &named.put {
                kept.insert(path.clone(), *node);
            }
        }
        kept
    }
}

impl Named {
    /// The directory whose sync makes the change durable.
    fn directory(&self) -> &Path {
        let path = match (&self.put, &self.removed) {
            (Some((path, _)), _) | (None, Some(path)) => path,
            (None, None) => unreachable!("every event has a name"),
        };
        path.parent().unwrap()
    }
}

impl Content {
    fn write(&mut self, index: usize, offset: u64, bytes: &[u8]) {
        let (mut at, mut rest) = (offset as usize, bytes);
        while !rest.is_empty() {
            let count = (PAGE - at % PAGE).min(rest.len());
            let pieces = self.pieces.entry((at / PAGE) as u64).or_default();
            // The whole page is dirty again, so the next sync writes all of it.
            pieces.iter_mut().for_each(|piece| piece.is_lost = false);
            pieces.push(Piece {
                index,
                from: at % PAGE,
                bytes: rest[..count].to_vec(),
                is_lost: false,
            });
            at += count;
            rest = &rest[count..];
        }
    }

    fn sync(&mut self, pages: std::ops::Range<u64>, began: usize, is_lost: bool) {
        for (page, pieces) in self.pieces.range_mut(pages) {
            if is_lost {
                pieces.iter_mut().for_each(|piece| piece.is_lost = true);
                continue;
            }
            let covered = |piece: &Piece| piece.index < began && !piece.is_lost;
            for piece in pieces.iter().filter(|piece| covered(piece)) {
                put_at(
                    &mut self.durable,
                    *page as usize * PAGE + piece.from,
                    &piece.bytes,
                );
            }
            pieces.retain(|piece| !covered(piece));
        }
        self.pieces.retain(|_, pieces| !pieces.is_empty());
        if is_lost {
            return;
        }
        for (_, length) in self.lengths.iter().filter(|(index, _)| *index < began) {
            self.durable.resize(*length as usize, 0);
        }
        self.lengths.retain(|(index, _)| *index >= began);
    }

    /// The content after a power loss, with the last length set before the event `cut`.
    fn image(&self, cut: usize, tears: bool, random: &mut Random, losses: &mut Losses) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        let count = self.lengths.partition_point(|(index, _)| *index < cut);
        if let Some((_, length)) = self.lengths[..count].last() {
            bytes.resize(*length as usize, 0);
        }
        let has_length = count > 0 || !self.durable.is_empty() || self.lengths.is_empty();
        for (page, pieces) in self.pieces.iter().filter(|_| has_length) {
            let at = *page as usize * PAGE;
            let kept = pick(random, 0, pieces.len());
            losses.pieces += pieces.len() - kept;
            let is_torn = tears && random.one_in(2);
            losses.torn_pages += usize::from(is_torn);
            for (number, piece) in pieces.iter().enumerate() {
                if piece.is_lost {
                    continue;
                }
                if !is_torn {
                    if number < kept {
                        put_at(&mut bytes, at + piece.from, &piece.bytes);
                    }
                    continue;
                }
                // Each sector keeps the pieces before a random moment of its own.
                for (from, part) in sectors(piece) {
                    let mut own = Random::new(random_of(kept, *page, from / SECTOR));
                    if number < pick(&mut own, 0, pieces.len()) {
                        put_at(&mut bytes, at + from, part);
                    }
                }
            }
        }
        bytes
    }
}

fn random_of(kept: usize, page: u64, sector: usize) -> u64 {
    (kept as u64) << 40 ^ page << 8 ^ sector as u64
}

/// The parts of a piece by sector, with their positions in the page.
fn sectors(piece: &Piece) -> impl Iterator<Item = (usize, &[u8])> {
    let mut at = piece.from;
    let mut rest = &piece.bytes[..];
    std::iter::from_fn(move || {
        let count = (SECTOR - at % SECTOR).min(rest.len());
        let (part, others) = rest.split_at(count);
        let found = (at, part);
        at += count;
        rest = others;
        (count > 0).then_some(found)
    })
}

/// A random number from `from` to `to`, inclusive; each end has a chance of more than a quarter.
fn pick(random: &mut Random, from: usize, to: usize) -> usize {
    match random.below(4) {
        0 => from,
        1 => to,
        _ => from + random.below(to - from + 1),
    }
}

fn has_parent(kept: &BTreeMap<PathBuf, Node>, path: &Path) -> bool {
    let parent = path.parent().unwrap();
    parent.as_os_str().is_empty()
        || (kept.get(parent) == Some(&Node::Directory) && has_parent(kept, parent))
}

fn put_at(target: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    let end = at + bytes.len();
    if target.len() < end {
        target.resize(end, 0);
    }
    target[at..end].copy_from_slice(bytes);
}

fn write_sparse(path: &Path, bytes: &[u8]) {
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).open(path).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
    for (number, page) in bytes.chunks(PAGE).enumerate() {
        if page.iter().any(|byte| *byte != 0) {
            file.write_all_at(page, (number * PAGE) as u64).unwrap();
        }
    }
}
