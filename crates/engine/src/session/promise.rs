//! Another node is told when a delivery has ended.

use crate::ids::ShardId;
use std::cell::RefCell;
use std::rc::Rc;

/// What members of this shard have come to the end of: whose it was, and its id there.
pub(crate) type Done = Rc<RefCell<Vec<(ShardId, u64)>>>;

/// That a group of another node is told when a message that it has dealt comes to its end, whatever that is: it is told when the last
/// delivery that holds this is gone.
#[derive(Debug)]
pub(crate) struct Promise {
    pub home: ShardId,
    pub id: u64,
    pub(crate) done: Done,
}

impl Promise {
    /// The message goes back to the shard that keeps it. The shard hears nothing else.
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
