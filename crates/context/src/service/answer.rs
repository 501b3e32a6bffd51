//! What clients say to a gateway, and what they are answered.

/// What is told of a context or an advertisement when its fate is known: whether the bus has it, or it is done with
/// otherwise. Dropped, it says that the bus does not have it.
pub struct Answer(Option<Box<dyn FnOnce(bool) + Send>>);

impl Answer {
    /// Calls `tell` once, with `true` when the publisher may be told that all is well.
    pub fn new(tell: impl FnOnce(bool) + Send + 'static) -> Self {
        Self(Some(Box::new(tell)))
    }

    /// The bus has it, or it needs nothing more.
    pub fn done(mut self) {
        self.tell(true);
    }

    fn tell(&mut self, done: bool) {
        if let Some(tell) = self.0.take() {
            tell(done);
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.tell(false);
    }
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answer").finish_non_exhaustive()
    }
}

/// What a client has said as a definer.
#[derive(Debug)]
pub struct ClientAdvertisement {
    /// The definer.
    pub definer: String,
    /// What it has said.
    pub payload: Vec<u8>,
    /// Told when the bus has it.
    pub answer: Answer,
}

/// A context that a node has sent.
#[derive(Debug)]
pub struct NodeContext {
    /// Whose it is.
    pub node: String,
    /// The context; empty when the node has gone for good.
    pub context: Vec<u8>,
    /// Told when the bus has it.
    pub answer: Answer,
}
