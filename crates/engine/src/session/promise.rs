//! The notice to another node that a delivery has ended.

use crate::ids::ShardId;
use std::cell::RefCell;
use std::rc::Rc;

/// Messages finished by members of this shard: the dealing shard, and the id there.
pub(crate) type Done = Rc<RefCell<Vec<(ShardId, u64)>>>;

/// The promise to notify a group of another node when a message that it has dealt ends, with any outcome. The notice is
/// queued when the last delivery with this promise is dropped.
#[derive(Debug)]
pub(crate) struct Promise {
    pub home: ShardId,
    pub id: u64,
    pub(crate) done: Done,
}

impl Promise {
    /// Another shard keeps the message from now on. The former one forgets it, if it lives. Returns false for another
    /// message.
    pub(crate) fn renew(&mut self, keeper: ShardId, id: u64) -> bool {
        if self.id != id {
            return false;
        }
        let former = std::mem::replace(&mut self.home, keeper);
        if former != keeper {
            self.done.borrow_mut().push((former, id));
        }
        true
    }

    /// The message returns to the shard that keeps it, without another notice.
    pub(crate) fn withdraw(mut self) {
        self.id = 0;
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        if self.id != 0 {
            self.done.borrow_mut().push((self.home, self.id));
        }
    }
}
