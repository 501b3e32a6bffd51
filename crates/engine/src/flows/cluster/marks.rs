//! The marks of exchanges are compared with a message that comes.

use crate::cluster::exchanges::Got;
use crate::flows::publish::deciding::Deciding;
use crate::ids::ShardId;
use crate::link::exchange_word::ExchangeWord;

impl Deciding<'_> {
    /// A message that another shard names comes now. Returns who has got it already; from now on all who are here have.
    #[cold]
    pub(crate) fn mark_coming(&mut self, from: ShardId, word: ExchangeWord) -> Got {
        let known = self.desk.exchanges.marks.get(word.name).with(word.covered);
        let got = self.desk.exchanges.got_here(self.groups, from);
        self.desk.exchanges.put_mark(self.place, &mut self.desk.journal, word.name, got);
        self.groups.tell_next_homes(self.desk, self.links, word.name, got.groups);
        self.desk.transfers.note_name(from, word.name);
        let done = self.desk.exchanges.marks.forget_below(word.name.origin, word.done_below);
        let silent = self.desk.exchanges.marks.forget_silent();
        for (name, stored) in done.into_iter().chain(silent) {
            self.desk.journal.delete_marks(self.place, name, stored);
        }
        known
    }
}
