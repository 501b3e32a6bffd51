//! Which parts of a folder of segments a question looks at.

use std::cmp::Reverse;
use std::io;
use std::path::PathBuf;

use super::check_wanted;
use super::index::{Block, HistoryIndex, first_time};

/// The parts that a question looks at.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// Blocks with the numbers of their segments, in the order of times: those behind a full answer need not be looked at.
    pub(super) blocks: Vec<(usize, Block)>,
    /// Bytes that were read to find them.
    pub(super) looked: u64,
    /// The time from which on, or before which, segments were not read, if they are in the order of times; Unix milliseconds.
    pub(super) edge: Option<u64>,
}

/// Finds the blocks with messages at `from` and later. It begins at the end that is asked for, and reads about `most` bytes of
/// segments that have no index yet, but one segment in any case. The index stays for the next question.
pub(super) fn survey(
    index: &HistoryIndex,
    segments: &[PathBuf],
    (from, is_forward): (u64, bool),
    most: u64,
    is_wanted: &dyn Fn() -> bool,
) -> io::Result<Survey> {
    let mut unread = Vec::with_capacity(segments.len());
    for path in segments {
        unread.push(index.unread(path)?);
    }
    // The first segment with wanted times, if segments are in the order of times.
    let begin = if is_forward && unread.iter().sum::<u64>() > most { last_until(segments, from)? } else { 0 };
    let order: Vec<usize> = if is_forward {
        // After a step of the clock, earlier ones may have wanted times, too.
        (begin..segments.len()).chain((0..begin).rev()).collect()
    } else {
        (0..segments.len()).rev().collect()
    };
    let (mut survey, mut left) = (Survey::default(), Vec::new());
    for number in order {
        let (Some(path), Some(&bytes)) = (segments.get(number), unread.get(number)) else { continue };
        if bytes > 0 && survey.looked > 0 && survey.looked + bytes > most {
            left.push(number);
            continue;
        }
        if bytes > 0 {
            check_wanted(is_wanted)?;
        }
        survey.looked += bytes;
        let blocks = index.blocks(path)?;
        survey.blocks.extend(blocks.iter().filter(|block| block.latest >= from).map(|block| (number, *block)));
    }
    survey.edge = edge(segments, &left, (from, is_forward, begin))?;
    if is_forward {
        survey.blocks.sort_by_key(|(_, block)| block.earliest);
    } else {
        survey.blocks.sort_by_key(|(_, block)| Reverse(block.latest));
    }
    Ok(survey)
}

/// The last segment whose first line is not after a time.
fn last_until(segments: &[PathBuf], time: u64) -> io::Result<usize> {
    for (number, path) in segments.iter().enumerate().rev() {
        if first_time(path)?.is_some_and(|first| first <= time) {
            return Ok(number);
        }
    }
    Ok(0)
}

/// Where the segments that were left out begin or end.
fn edge(
    segments: &[PathBuf],
    left: &[usize],
    (from, is_forward, begin): (u64, bool, usize),
) -> io::Result<Option<u64>> {
    let place = if is_forward {
        left.iter().filter(|number| **number >= begin).min().copied()
    } else {
        // A segment ends before the next one begins.
        left.iter().max().map(|number| number + 1)
    };
    for path in place.and_then(|place| segments.get(place..)).unwrap_or_default() {
        if let Some(time) = first_time(path)? {
            return Ok(if is_forward { Some(time.max(from)) } else { Some(time).filter(|time| *time >= from) });
        }
    }
    Ok(None)
}
