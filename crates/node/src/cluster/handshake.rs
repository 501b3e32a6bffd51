//! How two nodes find out that they belong together: four frames, each side proving that it knows the secret without
//! sending it.
//!
//! ```text
//! dialer                                  listener
//!   Hello  ------------------------------>   is it one of my view, in this life, and does it mean me?
//!   is it whom I dialed?    <------------  Hello
//!   Proof over both hellos  ------------->   does it know the secret?
//!   and does it?            <------------  Proof over both hellos
//! ```
//!
//! The dialer proves first, so that nobody gets a proof out of a listener who has none to give. What is
//! made up for the connection is in both proofs, so none can be used again.

use super::wire::{Frame, FrameError, Hello, NONCE_BYTES, Refusal, put_frame};
use super::{ClusterView, NodeName, PeerNode};
use crate::secret::Secret;

/// What this node says of itself.
#[derive(Clone, Debug)]
pub(super) struct Oneself {
    pub name: NodeName,
    pub incarnation: u64,
    pub shards: u16,
    /// Numbers that are left for shards of others in all.
    pub most_shards: u16,
    pub secret: Secret,
}

/// What is different each time: the clocks, and something made up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub nonce: [u8; NONCE_BYTES],
    /// Monotonic clock, microseconds.
    pub monotonic: u64,
    /// Wall clock, milliseconds since 1970.
    pub unix: u64,
}

/// Whom the handshake has led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Acquaintance {
    pub name: NodeName,
    pub incarnation: u64,
    pub shards: u16,
    /// What has to be added to the other's monotonic clock, milliseconds: more than that by as long as the hello was
    /// under way.
    pub shift: i64,
    /// How much the wall clocks differ, milliseconds; positive when the other's is ahead.
    pub skew: i64,
    /// The number of the indirect session that this connection continues; 0 for a session of its own.
    pub continues: u64,
}

/// Why there is no session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum HandshakeError {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("it says that there will be no session: {}", .0.text())]
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
    #[error("{name} has {shards} shards, and there are {left} numbers for those of others; use fewer shards or nodes")]
    Shards { name: NodeName, shards: u16, left: u16 },
    #[error("it sent a message that is not part of the handshake")]
    OutOfPlace,
}

impl HandshakeError {
    /// What the other side is told.
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

/// How far it has come.
#[derive(Debug)]
enum Step {
    /// A hello is expected.
    Hello,
    /// A proof about both hellos is expected.
    Proof { theirs: Vec<u8>, acquaintance: Acquaintance },
    /// It is over.
    Over,
}

/// One side of a handshake.
#[derive(Debug)]
pub(super) struct Handshake {
    /// Whom one has dialed; the listener does not know yet.
    dialed: Option<PeerNode>,
    /// The indirect session that the connection is to continue, or 0.
    continues: u64,
    /// One's own hello, as it was sent.
    ours: Vec<u8>,
    /// What only both ends of the connection know, where it is encrypted: a proof counts for no other connection, so
    /// that nobody can stand in between.
    binding: Vec<u8>,
    step: Step,
}

const DIALER: &[u8] = b"tidegate link dialer";
const LISTENER: &[u8] = b"tidegate link listener";

impl Handshake {
    /// Begins as the node that has connected; appends the hello. The connection is to continue the session of the number
    /// `continues`, if that is not 0.
    pub(super) fn dial(oneself: &Oneself, peer: PeerNode, continues: u64, moment: Moment, out: &mut Vec<u8>) -> Self {
        let ours = hello(oneself, &peer.name, continues, moment);
        out.extend_from_slice(&ours);
        Self { dialed: Some(peer), continues, ours, binding: Vec::new(), step: Step::Hello }
    }

    /// Begins as the one who was connected to.
    pub(super) fn listen() -> Self {
        Self { dialed: None, continues: 0, ours: Vec::new(), binding: Vec::new(), step: Step::Hello }
    }

    /// Says what only both ends of the connection know.
    pub(super) fn bound_to(&mut self, binding: Vec<u8>) -> &mut Self {
        self.binding = binding;
        self
    }

    /// What a proof begins with.
    fn side(&self, side: &[u8]) -> Vec<u8> {
        [side, &self.binding].concat()
    }

    /// Whom one has dialed.
    pub(super) fn dialed(&self) -> Option<&PeerNode> {
        self.dialed.as_ref()
    }

    /// Takes a frame and appends what has to be sent. Returns who it is as soon as that is proven.
    pub(super) fn take(
        &mut self,
        oneself: &Oneself,
        view: &ClusterView,
        frame: Frame<'_>,
        moment: Moment,
        out: &mut Vec<u8>,
    ) -> Result<Option<Acquaintance>, HandshakeError> {
        match (std::mem::replace(&mut self.step, Step::Over), frame) {
            (_, Frame::Refusal(refusal)) => Err(HandshakeError::Refused(refusal)),
            (Step::Hello, Frame::Hello(theirs)) => {
                self.take_hello(oneself, view, theirs, moment, out)?;
                Ok(None)
            }
            (Step::Proof { theirs, acquaintance }, Frame::Proof(proof)) => {
                self.take_proof(oneself, &theirs, proof, out)?;
                Ok(Some(acquaintance))
            }
            _ => Err(HandshakeError::OutOfPlace),
        }
    }

    fn take_hello(
        &mut self,
        oneself: &Oneself,
        view: &ClusterView,
        hello_of_theirs: Hello,
        moment: Moment,
        out: &mut Vec<u8>,
    ) -> Result<(), HandshakeError> {
        let acquaintance = self.meet(oneself, view, &hello_of_theirs, moment)?;
        let mut theirs = Vec::new();
        put_frame(&Frame::Hello(hello_of_theirs), &mut theirs);
        if self.dialed.is_some() {
            put_frame(&Frame::Proof(oneself.secret.prove(&self.side(DIALER), [&self.ours, &theirs])), out);
        } else {
            self.ours = hello(oneself, &acquaintance.name, acquaintance.continues, moment);
            out.extend_from_slice(&self.ours);
        }
        self.step = Step::Proof { theirs, acquaintance };
        Ok(())
    }

    /// Whether a session with whoever speaks is wanted, if it is who it says.
    fn meet(
        &self,
        oneself: &Oneself,
        view: &ClusterView,
        hello: &Hello,
        moment: Moment,
    ) -> Result<Acquaintance, HandshakeError> {
        let name = hello.name.clone();
        if hello.to != oneself.name {
            return Err(HandshakeError::NotMeant { name, meant: hello.to.clone() });
        }
        let expected = match &self.dialed {
            Some(dialed) if dialed.name != name => return Err(HandshakeError::Another(name)),
            Some(dialed) => Some(dialed),
            None if name >= oneself.name => return Err(HandshakeError::OutOfTurn(name)),
            None => view.peers.iter().find(|peer| peer.name == name),
        };
        let known = expected.ok_or_else(|| HandshakeError::Unknown(name.clone()))?.incarnation;
        if hello.incarnation != known {
            return Err(HandshakeError::Incarnation { name, said: hello.incarnation, known });
        }
        if hello.shards == 0 || hello.shards > oneself.most_shards {
            return Err(HandshakeError::Shards { name, shards: hello.shards, left: oneself.most_shards });
        }
        let shift = shift(moment.monotonic, hello.monotonic);
        let skew = hello.unix.cast_signed().saturating_sub(moment.unix.cast_signed());
        let continues = if self.dialed.is_some() { self.continues } else { hello.continues };
        Ok(Acquaintance { name, incarnation: known, shards: hello.shards, shift, skew, continues })
    }

    fn take_proof(
        &self,
        oneself: &Oneself,
        theirs: &[u8],
        proof: [u8; super::wire::PROOF_BYTES],
        out: &mut Vec<u8>,
    ) -> Result<(), HandshakeError> {
        let secret = &oneself.secret;
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

/// What has to be added to the other's monotonic milliseconds, when something that left at `sent` of its microseconds
/// is here at `received` of one's own.
pub(super) fn shift(received: u64, sent: u64) -> i64 {
    (received / 1000).cast_signed().saturating_sub((sent / 1000).cast_signed())
}

fn hello(oneself: &Oneself, to: &NodeName, continues: u64, moment: Moment) -> Vec<u8> {
    let mut bytes = Vec::new();
    let hello = Hello {
        nonce: moment.nonce,
        name: oneself.name.clone(),
        to: to.clone(),
        incarnation: oneself.incarnation,
        shards: oneself.shards,
        monotonic: moment.monotonic,
        unix: moment.unix,
        continues,
    };
    put_frame(&Frame::Hello(hello), &mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::super::wire::{MAX_GREETING_BYTES, split_frame};
    use super::*;

    fn oneself(name: &str, secret: u8) -> Oneself {
        let name = NodeName::new(name).unwrap();
        Oneself { name, incarnation: 5, shards: 2, most_shards: 62, secret: Secret::new(&[secret; 32]).unwrap() }
    }

    fn peer(name: &str, incarnation: u64) -> PeerNode {
        let address = "127.0.0.1:1".parse().unwrap();
        PeerNode { name: NodeName::new(name).unwrap(), incarnation, address }
    }

    fn view(peers: &[PeerNode]) -> ClusterView {
        ClusterView { peers: peers.to_vec(), ..ClusterView::alone() }
    }

    fn moment(nonce: u8) -> Moment {
        Moment { nonce: [nonce; 32], monotonic: u64::from(nonce) * 1_000_000, unix: u64::from(nonce) }
    }

    type Outcome = Result<Option<Acquaintance>, HandshakeError>;

    fn give(to: &mut Handshake, who: &Oneself, view: &ClusterView, bytes: &[u8], nonce: u8) -> (Outcome, Vec<u8>) {
        let mut out = Vec::new();
        let mut rest = bytes;
        let mut outcome = Ok(None);
        while let Some((frame, length)) = split_frame(rest, MAX_GREETING_BYTES).unwrap() {
            rest = &rest[length..];
            outcome = to.take(who, view, frame, moment(nonce), &mut out);
        }
        (outcome, out)
    }

    /// What each side of a whole handshake comes to.
    fn shake(dialer: &Oneself, meant: PeerNode, listener: &Oneself, known: &ClusterView) -> [Outcome; 2] {
        let mut to_listener = Vec::new();
        let nobody = view(&[]);
        let mut dialing = Handshake::dial(dialer, meant, 0, moment(1), &mut to_listener);
        let mut listening = Handshake::listen();
        let (mut at_dialer, mut at_listener) = (Ok(None), Ok(None));
        for _ in 0..2 {
            let to_dialer;
            (at_listener, to_dialer) = give(&mut listening, listener, known, &to_listener, 2);
            if at_listener.is_err() {
                break;
            }
            (at_dialer, to_listener) = give(&mut dialing, dialer, &nobody, &to_dialer, 3);
            if at_dialer.is_err() {
                break;
            }
        }
        [at_dialer, at_listener]
    }

    /// Somebody between two nodes has a connection with each, and hands on what they say.
    #[test]
    fn a_proof_counts_for_one_encrypted_connection() {
        let (a, b) = (oneself("a", 1), oneself("b", 1));
        let known = view(&[peer("a", 5)]);
        let outcome = |of_a: &[u8], of_b: &[u8]| {
            let mut hello = Vec::new();
            let mut dialing = Handshake::dial(&a, peer("b", 5), 0, moment(1), &mut hello);
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
        let (a, b) = (oneself("a", 1), oneself("b", 1));
        let [at_a, at_b] = shake(&a, peer("b", 5), &b, &view(&[peer("c", 1), peer("a", 5)]));
        let with = |name, shift, skew| Acquaintance {
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
    fn another_secret_is_found_out_by_the_listener_and_by_the_dialer() {
        let (a, b) = (oneself("a", 1), oneself("b", 2));
        let [at_a, at_b] = shake(&a, peer("b", 5), &b, &view(&[peer("a", 5)]));
        assert_eq!((at_a, at_b), (Ok(None), Err(HandshakeError::Secret)));
        // A listener that takes any proof has none of its own to give.
        let mut out = Vec::new();
        let mut dialing = Handshake::dial(&a, peer("b", 5), 0, moment(1), &mut out);
        let answer = hello(&b, &a.name, 0, moment(2));
        assert_eq!(give(&mut dialing, &a, &view(&[]), &answer, 3).0, Ok(None));
        let mut proof = Vec::new();
        put_frame(&Frame::Proof(b.secret.prove(LISTENER, [&out, &answer])), &mut proof);
        assert_eq!(give(&mut dialing, &a, &view(&[]), &proof, 3).0, Err(HandshakeError::Secret));
    }

    #[test]
    fn a_dialers_own_proof_sent_back_proves_nothing() {
        let a = oneself("a", 1);
        let mut out = Vec::new();
        let mut dialing = Handshake::dial(&a, peer("b", 5), 0, moment(1), &mut out);
        let b = Oneself { name: NodeName::new("b").unwrap(), ..a.clone() };
        let (_, proof) = give(&mut dialing, &a, &view(&[]), &hello(&b, &a.name, 0, moment(2)), 3);
        assert_eq!(give(&mut dialing, &a, &view(&[]), &proof, 3).0, Err(HandshakeError::Secret));
    }

    #[test]
    fn whoever_is_not_expected_is_refused() {
        let (a, b) = (oneself("a", 1), oneself("b", 1));
        let name = |name| NodeName::new(name).unwrap();
        let at_listener = |known: &ClusterView| shake(&a, peer("b", 5), &b, known)[1].clone().unwrap_err();
        assert_eq!(at_listener(&view(&[])), HandshakeError::Unknown(name("a")));
        let another_life = HandshakeError::Incarnation { name: name("a"), said: 5, known: 6 };
        assert_eq!(at_listener(&view(&[peer("a", 6)])), another_life);
        let [_, at_c] = shake(&a, peer("b", 5), &oneself("c", 1), &view(&[peer("a", 5)]));
        assert_eq!(at_c, Err(HandshakeError::NotMeant { name: name("a"), meant: name("b") }));
        let [at_a, _] = shake(&a, peer("b", 4), &b, &view(&[peer("a", 5)]));
        assert_eq!(at_a, Err(HandshakeError::Incarnation { name: name("b"), said: 5, known: 4 }));
        let [_, at_a] = shake(&b, peer("a", 5), &a, &view(&[peer("b", 5)]));
        assert_eq!(at_a, Err(HandshakeError::OutOfTurn(name("b"))));
        let small = Oneself { most_shards: 1, ..b };
        let [_, at_small] = shake(&a, peer("b", 5), &small, &view(&[peer("a", 5)]));
        assert_eq!(at_small, Err(HandshakeError::Shards { name: name("a"), shards: 2, left: 1 }));
    }

    #[test]
    fn what_comes_out_of_order_ends_it() {
        let b = oneself("b", 1);
        for frame in [Frame::Proof([0; 32]), Frame::Ping { sent: 0 }, Frame::Goodbye] {
            let outcome = Handshake::listen().take(&b, &view(&[]), frame, moment(1), &mut Vec::new());
            assert_eq!(outcome, Err(HandshakeError::OutOfPlace));
        }
        let refused = Frame::Refusal(Refusal::Secret);
        let outcome = Handshake::listen().take(&b, &view(&[]), refused, moment(1), &mut Vec::new());
        assert_eq!(outcome, Err(HandshakeError::Refused(Refusal::Secret)));
        assert_eq!(outcome.unwrap_err().refusal(), None);
    }
}
