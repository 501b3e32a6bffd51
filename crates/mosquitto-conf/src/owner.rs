//! The objects of the result that lines belong to.

use tidegate_conversion::Outcome;

use crate::default_listener::PLACE;
use crate::draft::Draft;
use crate::keys::{Key, Part, Rule};
use crate::lines::Line;
use crate::taken::LineOwner;

impl<'a> Draft<'a> {
    /// The owner of a line that has been taken.
    pub(crate) fn owner(&self, line: &Line<'a>, key: &Key) -> LineOwner {
        let by_listener = self.per_listener || line.key == "listener_allow_anonymous";
        match key.rule {
            Rule::Listener(..) | Rule::Part(Part::Place | Part::Tls | Part::Mount | Part::Versions) => {
                self.listener_of(line)
            }
            Rule::EveryListener(..) if self.per_listener && line.key == "allow_zero_length_clientid" => {
                self.listener_of(line)
            }
            Rule::Part(Part::Anonymous | Part::Users | Part::Rules) if by_listener => self.listener_of(line),
            Rule::EveryListener(..) | Rule::Part(Part::Anonymous | Part::Users | Part::Rules) => LineOwner::Listeners,
            Rule::Part(Part::Bridge) => {
                let own = self.files.get(&line.file).and_then(|current| current.bridge);
                own.and_then(|own| self.bridges.get(own))
                    .map_or(LineOwner::Broker, |own| LineOwner::Bridge(own.opened_by))
            }
            _ => LineOwner::Broker,
        }
    }

    fn listener_of(&self, line: &Line<'a>) -> LineOwner {
        let own = self.files.get(&line.file).and_then(|current| current.listener);
        let listener = match own.filter(|_| !PLACE.contains(&line.key)) {
            Some(own) => self.listeners.get(own),
            None => self.default.as_ref(),
        };
        listener.and_then(|listener| listener.opened_by).map_or(LineOwner::Listeners, LineOwner::Listener)
    }

    /// Refuses lines of listeners and bridges that are left out. `open` has the lines that open the other listeners.
    pub(crate) fn refuse_left_out(&mut self, open: &[Option<usize>]) {
        for (index, owner) in std::mem::take(&mut self.owners).into_iter().enumerate() {
            let is_refused = |line: usize| self.taken.get(line).is_some_and(|it| it.outcome == Outcome::Refused);
            match owner {
                LineOwner::Listeners if open.is_empty() => self.refused(index, "no listener is carried over"),
                LineOwner::Listener(opened) if !open.contains(&Some(opened)) => {
                    self.refused(index, "its listener is left out");
                }
                LineOwner::Bridge(opened) if is_refused(opened) => self.refused(index, "its bridge is left out"),
                LineOwner::Broker | LineOwner::Listeners | LineOwner::Listener(_) | LineOwner::Bridge(_) => {}
            }
        }
    }
}
