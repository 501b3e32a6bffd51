//! How two nodes find out that they belong together: four frames, each side proving that it knows the secret without
//! sending it.
//!
//! ```text
//! dialer                                  listener
//!   Hello  ------------------------------>   is it one of my view, in this life, and does it mean me?
//!   is it the dialed node?  <------------  Hello
//!   Proof over both hellos  ------------->   does it know the secret?
//!   and does it?            <------------  Proof over both hellos
//! ```
//!
//! The dialer proves first, so that a stranger that cannot prove the secret gets no proof from a listener. Both proofs
//! cover the nonces of the connection, so neither can be used again.

use super::wire::{Frame, FrameError, Hello, NONCE_BYTES, Refusal, put_frame};
use super::{ClusterView, NodeName, PeerNode};
use crate::secret::Secret;

/// This node, as its hello describes it.
#[derive(Clone, Debug)]
pub(super) struct LocalNode {
    pub name: NodeName,
    pub incarnation: u64,
    pub shards: u16,
    /// Numbers that are left for shards of others in all.
    pub most_shards: u16,
    pub secret: Secret,
}

/// The inputs of a handshake that differ each time: the clocks, and a nonce.
#[derive(Clone, Copy, Debug)]
pub(super) struct Freshness {
    pub nonce: [u8; NONCE_BYTES],
    /// Monotonic clock, microseconds.
    pub monotonic: u64,
    /// Wall clock, milliseconds since 1970.
    pub unix: u64,
}

/// The node at the other end, as the handshake has proven it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PeerInfo {
    pub name: NodeName,
    pub incarnation: u64,
    pub shards: u16,
    /// Difference to add to the other's monotonic clock, milliseconds; too large by the time that the hello was in
    /// transit.
    pub shift: i64,
    /// How much the wall clocks differ, milliseconds; positive when the other's is ahead.
    pub skew: i64,
    /// The number of the indirect session that this connection continues; 0 for its own session.
    pub continues: u64,
}

/// Why there is no session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum HandshakeError {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("the link is refused: {}", .0.text())]
    Refused(Refusal),
    #[error("its secret differs; all nodes of a cluster need the same secret")]
    Secret,
    #[error("{0} is in no view of the cluster, or not yet")]
    Unknown(NodeName),
    #[error("{name} answers with the incarnation {said}; the cluster expects {known}")]
    Incarnation { name: NodeName, said: u64, known: u64 },
    #[error("{0} answers there, which is another node")]
    Another(NodeName),
    #[error("{name} takes this node for {meant}")]
    NotMeant { name: NodeName, meant: NodeName },
    #[error("{0} connected, although the node with the smaller name must connect: this one")]
    OutOfTurn(NodeName),
    #[error(
        "{name} has {shards} shards, and {left} numbers are left for shards of other nodes; use fewer shards or nodes"
    )]
    Shards { name: NodeName, shards: u16, left: u16 },
    #[error("it sent a message that is not part of the handshake")]
    OutOfPlace,
}

impl HandshakeError {
    /// The refusal to send to the other side.
    pub(super) fn refusal(&self) -> Option<Refusal> {
        Some(match self {
            Self::Refused(_) => return None,
            Self::Frame(FrameError::Version(_)) => Refusal::Version,
            Self::Frame(_) | Self::OutOfPlace => Refusal::Protocol,
            Self::Secret => Refusal::Secret,
            Self::Unknown(_) => Refusal::Unknown,
            Self::Incarnation { .. } => Refusal::Incarnation,
            Self::Another(_) | Self::NotMeant { .. } => Refusal::NotMeant,
            Self::OutOfTurn(_) => Refusal::OutOfTurn,
            Self::Shards { .. } => Refusal::Shards,
        })
    }
}

/// The next step of a handshake.
#[derive(Debug)]
enum Step {
    /// A hello is expected.
    Hello,
    /// A proof about both hellos is expected.
    Proof { theirs: Vec<u8>, peer: PeerInfo },
    /// It is over.
    Over,
}

/// One side of a handshake.
#[derive(Debug)]
pub(super) struct Handshake {
    /// The dialed node; unknown at the listener.
    dialed: Option<PeerNode>,
    /// The indirect session that the connection is to continue, or 0.
    continues: u64,
    /// One's own hello, as it was sent.
    ours: Vec<u8>,
    /// A value that only both ends of an encrypted connection know: a proof is valid for no other connection, so that
    /// no relay in between can use it.
    binding: Vec<u8>,
    step: Step,
}

const DIALER: &[u8] = b"tidegate link dialer";
const LISTENER: &[u8] = b"tidegate link listener";

impl Handshake {
    /// Begins as the node that has connected; appends the hello. The connection is to continue the session of the number
    /// `continues`, if that is not 0.
    pub(super) fn dial(
        local: &LocalNode,
        peer: PeerNode,
        continues: u64,
        freshness: Freshness,
        out: &mut Vec<u8>,
    ) -> Self {
        let ours = hello(local, &peer.name, continues, freshness);
        out.extend_from_slice(&ours);
        Self { dialed: Some(peer), continues, ours, binding: Vec::new(), step: Step::Hello }
    }

    /// Begins as the listener.
    pub(super) fn listen() -> Self {
        Self { dialed: None, continues: 0, ours: Vec::new(), binding: Vec::new(), step: Step::Hello }
    }

    /// Sets the value that only both ends of the connection know.
    pub(super) fn bound_to(&mut self, binding: Vec<u8>) -> &mut Self {
        self.binding = binding;
        self
    }

    /// The first bytes of a proof.
    fn side(&self, side: &[u8]) -> Vec<u8> {
        [side, &self.binding].concat()
    }

    /// The dialed node.
    pub(super) fn dialed(&self) -> Option<&PeerNode> {
        self.dialed.as_ref()
    }

    /// Processes a frame and appends the answer. Returns the other node as soon as it is proven.
    pub(super) fn take(
        &mut self,
        local: &LocalNode,
        view: &ClusterView,
        frame: Frame<'_>,
        freshness: Freshness,
        out: &mut Vec<u8>,
    ) -> Result<Option<PeerInfo>, HandshakeError> {
        match (std::mem::replace(&mut self.step, Step::Over), frame) {
            (_, Frame::Refusal(refusal)) => Err(HandshakeError::Refused(refusal)),
            (Step::Hello, Frame::Hello(theirs)) => {
                self.take_hello(local, view, theirs, freshness, out)?;
                Ok(None)
            }
            (Step::Proof { theirs, peer }, Frame::Proof(proof)) => {
                self.take_proof(local, &theirs, proof, out)?;
                Ok(Some(peer))
            }
            _ => Err(HandshakeError::OutOfPlace),
        }
    }

    fn take_hello(
        &mut self,
        local: &LocalNode,
        view: &ClusterView,
        hello_of_theirs: Hello,
        freshness: Freshness,
        out: &mut Vec<u8>,
    ) -> Result<(), HandshakeError> {
        let peer = self.meet(local, view, &hello_of_theirs, freshness)?;
        let mut theirs = Vec::new();
        put_frame(&Frame::Hello(hello_of_theirs), &mut theirs);
        if self.dialed.is_some() {
            put_frame(&Frame::Proof(local.secret.prove(&self.side(DIALER), [&self.ours, &theirs])), out);
        } else {
            self.ours = hello(local, &peer.name, peer.continues, freshness);
            out.extend_from_slice(&self.ours);
        }
        self.step = Step::Proof { theirs, peer };
        Ok(())
    }

    /// Returns whether a session with the claimed node is wanted.
    fn meet(
        &self,
        local: &LocalNode,
        view: &ClusterView,
        hello: &Hello,
        freshness: Freshness,
    ) -> Result<PeerInfo, HandshakeError> {
        let name = hello.name.clone();
        if hello.to != local.name {
            return Err(HandshakeError::NotMeant { name, meant: hello.to.clone() });
        }
        let expected = match &self.dialed {
            Some(dialed) if dialed.name != name => return Err(HandshakeError::Another(name)),
            Some(dialed) => Some(dialed),
            None if name >= local.name => return Err(HandshakeError::OutOfTurn(name)),
            None => view.peers.iter().find(|peer| peer.name == name),
        };
        let known = expected.ok_or_else(|| HandshakeError::Unknown(name.clone()))?.incarnation;
        if hello.incarnation != known {
            return Err(HandshakeError::Incarnation { name, said: hello.incarnation, known });
        }
        if hello.shards == 0 || hello.shards > local.most_shards {
            return Err(HandshakeError::Shards { name, shards: hello.shards, left: local.most_shards });
        }
        let shift = shift(freshness.monotonic, hello.monotonic);
        let skew = hello.unix.cast_signed().saturating_sub(freshness.unix.cast_signed());
        let continues = if self.dialed.is_some() { self.continues } else { hello.continues };
        Ok(PeerInfo { name, incarnation: known, shards: hello.shards, shift, skew, continues })
    }

    fn take_proof(
        &self,
        local: &LocalNode,
        theirs: &[u8],
        proof: [u8; super::wire::PROOF_BYTES],
        out: &mut Vec<u8>,
    ) -> Result<(), HandshakeError> {
        let secret = &local.secret;
        let ours = &self.ours[..];
        let proven = if self.dialed.is_some() {
            secret.is_proof(&proof, &self.side(LISTENER), [ours, theirs])
        } else {
            secret.is_proof(&proof, &self.side(DIALER), [theirs, ours])
        };
        if !proven {
            return Err(HandshakeError::Secret);
        }
        if self.dialed.is_none() {
            put_frame(&Frame::Proof(secret.prove(&self.side(LISTENER), [theirs, ours])), out);
        }
        Ok(())
    }
}

/// Difference to add to the other's monotonic milliseconds, if a frame that left at `sent` of its microseconds is here
/// at `received` of this node's.
pub(super) fn shift(received: u64, sent: u64) -> i64 {
    (received / 1000).cast_signed().saturating_sub((sent / 1000).cast_signed())
}

fn hello(local: &LocalNode, to: &NodeName, continues: u64, freshness: Freshness) -> Vec<u8> {
    let mut bytes = Vec::new();
    let hello = Hello {
        nonce: freshness.nonce,
        name: local.name.clone(),
        to: to.clone(),
        incarnation: local.incarnation,
        shards: local.shards,
        monotonic: freshness.monotonic,
        unix: freshness.unix,
        continues,
    };
    put_frame(&Frame::Hello(hello), &mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::super::wire::{MAX_GREETING_BYTES, split_frame};
    use super::*;

    fn local(name: &str, secret: u8) -> LocalNode {
        let name = NodeName::new(name).unwrap();
        LocalNode { name, incarnation: 5, shards: 2, most_shards: 62, secret: Secret::new(&[secret; 32]).unwrap() }
    }

    fn peer(name: &str, incarnation: u64) -> PeerNode {
        let address = "127.0.0.1:1".parse().unwrap();
        PeerNode { name: NodeName::new(name).unwrap(), incarnation, address }
    }

    fn view(peers: &[PeerNode]) -> ClusterView {
        ClusterView { peers: peers.to_vec(), ..ClusterView::alone() }
    }

    fn freshness(nonce: u8) -> Freshness {
        Freshness { nonce: [nonce; 32], monotonic: u64::from(nonce) * 1_000_000, unix: u64::from(nonce) }
    }

    type Outcome = Result<Option<PeerInfo>, HandshakeError>;

    fn give(to: &mut Handshake, who: &LocalNode, view: &ClusterView, bytes: &[u8], nonce: u8) -> (Outcome, Vec<u8>) {
        let mut out = Vec::new();
        let mut rest = bytes;
        let mut outcome = Ok(None);
        while let Some((frame, length)) = split_frame(rest, MAX_GREETING_BYTES).unwrap() {
            rest = &rest[length..];
            outcome = to.take(who, view, frame, freshness(nonce), &mut out);
        }
        (outcome, out)
    }

    /// The outcome of a whole handshake on each side.
    fn shake(dialer: &LocalNode, meant: PeerNode, listener: &LocalNode, known: &ClusterView) -> [Outcome; 2] {
        let mut to_listener = Vec::new();
        let empty = view(&[]);
        let mut dialing = Handshake::dial(dialer, meant, 0, freshness(1), &mut to_listener);
        let mut listening = Handshake::listen();
        let (mut at_dialer, mut at_listener) = (Ok(None), Ok(None));
        for _ in 0..2 {
            let to_dialer;
            (at_listener, to_dialer) = give(&mut listening, listener, known, &to_listener, 2);
            if at_listener.is_err() {
                break;
            }
            (at_dialer, to_listener) = give(&mut dialing, dialer, &empty, &to_dialer, 3);
            if at_dialer.is_err() {
                break;
            }
        }
        [at_dialer, at_listener]
    }

    /// A relay between two nodes has a connection with each, and passes their frames on.
    #[test]
    fn a_proof_counts_for_one_encrypted_connection() {
        let (a, b) = (local("a", 1), local("b", 1));
        let known = view(&[peer("a", 5)]);
        let outcome = |of_a: &[u8], of_b: &[u8]| {
            let mut hello = Vec::new();
            let mut dialing = Handshake::dial(&a, peer("b", 5), 0, freshness(1), &mut hello);
            let mut listening = Handshake::listen();
            let (_, answer) = give(listening.bound_to(of_b.to_vec()), &b, &known, &hello, 2);
            let (_, proof) = give(dialing.bound_to(of_a.to_vec()), &a, &view(&[]), &answer, 3);
            give(listening.bound_to(of_b.to_vec()), &b, &known, &proof, 4).0
        };
        assert!(outcome(b"keys", b"keys").is_ok_and(|who| who.is_some()));
        assert_eq!(outcome(b"keys", b"others"), Err(HandshakeError::Secret));
    }

    #[test]
    fn two_that_know_each_other_have_a_session() {
        let (a, b) = (local("a", 1), local("b", 1));
        let [at_a, at_b] = shake(&a, peer("b", 5), &b, &view(&[peer("c", 1), peer("a", 5)]));
        let with = |name, shift, skew| PeerInfo {
            name: NodeName::new(name).unwrap(),
            incarnation: 5,
            shards: 2,
            shift,
            skew,
            continues: 0,
        };
        assert_eq!(at_a, Ok(Some(with("b", 1000, -1))));
        assert_eq!(at_b, Ok(Some(with("a", 1000, -1))));
    }

    #[test]
    fn both_sides_detect_another_secret() {
        let (a, b) = (local("a", 1), local("b", 2));
        let [at_a, at_b] = shake(&a, peer("b", 5), &b, &view(&[peer("a", 5)]));
        assert_eq!((at_a, at_b), (Ok(None), Err(HandshakeError::Secret)));
        // A listener that takes any proof has no proof to give.
        let mut out = Vec::new();
        let mut dialing = Handshake::dial(&a, peer("b", 5), 0, freshness(1), &mut out);
        let answer = hello(&b, &a.name, 0, freshness(2));
        assert_eq!(give(&mut dialing, &a, &view(&[]), &answer, 3).0, Ok(None));
        let mut proof = Vec::new();
        put_frame(&Frame::Proof(b.secret.prove(LISTENER, [&out, &answer])), &mut proof);
        assert_eq!(give(&mut dialing, &a, &view(&[]), &proof, 3).0, Err(HandshakeError::Secret));
    }

    #[test]
    fn a_dialers_own_proof_sent_back_proves_nothing() {
        let a = local("a", 1);
        let mut out = Vec::new();
        let mut dialing = Handshake::dial(&a, peer("b", 5), 0, freshness(1), &mut out);
        let b = LocalNode { name: NodeName::new("b").unwrap(), ..a.clone() };
        let (_, proof) = give(&mut dialing, &a, &view(&[]), &hello(&b, &a.name, 0, freshness(2)), 3);
        assert_eq!(give(&mut dialing, &a, &view(&[]), &proof, 3).0, Err(HandshakeError::Secret));
    }

    #[test]
    fn unexpected_nodes_are_refused() {
        let (a, b) = (local("a", 1), local("b", 1));
        let name = |name| NodeName::new(name).unwrap();
        let at_listener = |known: &ClusterView| shake(&a, peer("b", 5), &b, known)[1].clone().unwrap_err();
        assert_eq!(at_listener(&view(&[])), HandshakeError::Unknown(name("a")));
        let another_life = HandshakeError::Incarnation { name: name("a"), said: 5, known: 6 };
        assert_eq!(at_listener(&view(&[peer("a", 6)])), another_life);
        let [_, at_c] = shake(&a, peer("b", 5), &local("c", 1), &view(&[peer("a", 5)]));
        assert_eq!(at_c, Err(HandshakeError::NotMeant { name: name("a"), meant: name("b") }));
        let [at_a, _] = shake(&a, peer("b", 4), &b, &view(&[peer("a", 5)]));
        assert_eq!(at_a, Err(HandshakeError::Incarnation { name: name("b"), said: 5, known: 4 }));
        let [_, at_a] = shake(&b, peer("a", 5), &a, &view(&[peer("b", 5)]));
        assert_eq!(at_a, Err(HandshakeError::OutOfTurn(name("b"))));
        let small = LocalNode { most_shards: 1, ..b };
        let [_, at_small] = shake(&a, peer("b", 5), &small, &view(&[peer("a", 5)]));
        assert_eq!(at_small, Err(HandshakeError::Shards { name: name("a"), shards: 2, left: 1 }));
    }

    #[test]
    fn a_frame_out_of_order_ends_the_handshake() {
        let b = local("b", 1);
        for frame in [Frame::Proof([0; 32]), Frame::Ping { sent: 0 }, Frame::Goodbye] {
            let outcome = Handshake::listen().take(&b, &view(&[]), frame, freshness(1), &mut Vec::new());
            assert_eq!(outcome, Err(HandshakeError::OutOfPlace));
        }
        let refused = Frame::Refusal(Refusal::Secret);
        let outcome = Handshake::listen().take(&b, &view(&[]), refused, freshness(1), &mut Vec::new());
        assert_eq!(outcome, Err(HandshakeError::Refused(Refusal::Secret)));
        assert_eq!(outcome.unwrap_err().refusal(), None);
    }
}
