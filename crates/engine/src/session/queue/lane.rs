//! Messages of one priority in the order of their arrival. Any of them can be taken out.

use std::collections::VecDeque;

use crate::session::Delivery;

/// Gaps that a lane keeps before it is packed, beside as many as it has messages.
const GAPS_MIN: usize = 32;

/// Deliveries by their numbers, which grow from the front to the back. A delivery taken out of the middle leaves a gap;
/// the first place is never a gap.
#[derive(Debug, Default)]
pub(super) struct Lane {
    places: VecDeque<(u64, Option<Delivery>)>,
    gaps: usize,
}

impl Lane {
    pub(super) fn len(&self) -> usize {
        self.places.len() - self.gaps
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number and delivery of the first.
    pub(super) fn front(&self) -> Option<(u64, &Delivery)> {
        let (number, delivery) = self.places.front()?;
        Some((*number, delivery.as_ref()?))
    }

    pub(super) fn get(&self, number: u64) -> Option<&Delivery> {
        self.places.get(self.place_of(number)?)?.1.as_ref()
    }

    /// Adds a delivery, at the back unless its number is below others.
    pub(super) fn insert(&mut self, number: u64, delivery: Delivery) {
        if self.places.back().is_none_or(|(last, _)| *last < number) {
            self.places.push_back((number, Some(delivery)));
            return;
        }
        match self.places.binary_search_by_key(&number, |(other, _)| *other) {
            Ok(place) => {
                if let Some((_, there)) = self.places.get_mut(place) {
                    self.gaps -= usize::from(there.is_none());
                    *there = Some(delivery);
                }
            }
            Err(place) => self.places.insert(place, (number, Some(delivery))),
        }
    }

    /// Takes a delivery out.
    pub(super) fn take(&mut self, number: u64) -> Option<Delivery> {
        let place = if self.places.front()?.0 == number { 0 } else { self.place_of(number)? };
        let taken = self.places.get_mut(place)?.1.take()?;
        self.gaps += 1;
        while self.places.front().is_some_and(|(_, delivery)| delivery.is_none()) {
            self.places.pop_front();
            self.gaps -= 1;
        }
        if self.gaps > self.len() + GAPS_MIN {
            self.places.retain(|(_, delivery)| delivery.is_some());
            self.gaps = 0;
        }
        Some(taken)
    }

    /// Moves the last delivery before the first of the first `limit` that `comes_after` it; the numbers keep their
    /// places. Returns whether it was moved.
    pub(super) fn advance_last(&mut self, limit: usize, comes_after: impl Fn(&Delivery) -> bool) -> bool {
        if self.gaps > 0 {
            self.places.retain(|(_, delivery)| delivery.is_some());
            self.gaps = 0;
        }
        let others = self.places.len().saturating_sub(1).min(limit);
        let after = |(_, delivery): &(u64, Option<Delivery>)| delivery.as_ref().is_some_and(&comes_after);
        let Some(place) = self.places.iter().take(others).position(after) else { return false };
        let mut moving = self.places.back_mut().and_then(|(_, last)| last.take());
        for (_, delivery) in self.places.range_mut(place..) {
            std::mem::swap(delivery, &mut moving);
        }
        true
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &Delivery)> {
        self.places.iter().filter_map(|(number, delivery)| Some((*number, delivery.as_ref()?)))
    }

    pub(super) fn into_deliveries(self) -> impl Iterator<Item = (u64, Delivery)> {
        self.places.into_iter().filter_map(|(number, delivery)| Some((number, delivery?)))
    }

    /// Gives memory back after a peak.
    pub(super) fn shrink(&mut self) {
        self.places.shrink_to_fit();
    }

    fn place_of(&self, number: u64) -> Option<usize> {
        self.places.binary_search_by_key(&number, |(other, _)| *other).ok()
    }
}
