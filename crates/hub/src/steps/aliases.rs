//! Columns of a SELECT by their names: `SELECT payload.temp AS t, t * 2 AS double FROM 'plant/#' WHERE t > 30`.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use super::node::{Alias, Node};

/// The columns that were read so far, and notes about the present one. A later one takes the place of an earlier
/// one with its name.
#[derive(Debug, Default)]
pub(super) struct Aliases {
    columns: RefCell<Vec<(String, Arc<Alias>)>>,
    depth: Cell<usize>,
    is_of_window: Cell<bool>,
}

impl Aliases {
    /// Notes how deep a part of the present column is.
    pub(super) fn note_depth(&self, depth: usize) {
        self.depth.set(self.depth.get().max(depth));
    }

    /// Notes that the present column is of a window.
    pub(super) fn note_window(&self) {
        self.is_of_window.set(true);
    }

    /// Ends the present column, and adds it.
    pub(super) fn add(&self, name: &str, node: Node) -> Arc<Alias> {
        let mut columns = self.columns.borrow_mut();
        let (depth, is_of_window) = (self.depth.take() + 1, self.is_of_window.take());
        let alias = Arc::new(Alias { number: columns.len(), depth, is_of_window, node });
        columns.push((name.to_owned(), Arc::clone(&alias)));
        alias
    }

    /// The column of a name.
    pub(super) fn get(&self, name: &str) -> Option<Arc<Alias>> {
        self.columns.borrow().iter().rev().find(|(known, _)| known == name).map(|(_, alias)| Arc::clone(alias))
    }
}
