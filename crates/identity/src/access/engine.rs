//! Rules as an engine asks them: on a shard's thread, from memory.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use tidegate_acl::{
    Compiled, Compiler, DecidedBy, Decision, Effect, GrantedAction, GrantedRule, Grants, Request, Rules, Subject,
};
use tidegate_engine::{self as engine, Grant, Identity, TenantId};
use tidegate_mqtt::{QoS, TopicFilter, TopicName};

use super::Names;

/// Views of clients that a shard remembers. When there are more, all are forgotten and made again as they are asked
/// for, which costs each client a few microseconds.
const MAX_VIEWS: usize = 16_384;

/// The rules, on one shard.
#[derive(Debug)]
pub(super) struct RuleAccess {
    compiler: Compiler,
    names: Names,
    views: RefCell<Views>,
}

#[derive(Debug, Default)]
struct Views {
    by_tenant: HashMap<TenantId, HashMap<Box<str>, View>>,
    count: usize,
}

/// The decisions of rules for a client, as long as its identity is the same.
#[derive(Debug)]
struct View {
    identity: Option<Identity>,
    listener: engine::ListenerId,
    compiled: Compiled,
}

impl RuleAccess {
    /// Asks these rules.
    pub(super) fn new(rules: Arc<Rules>, names: Names) -> Self {
        Self { compiler: Compiler::new(rules), names, views: RefCell::default() }
    }

    fn decide(&self, subject: engine::Subject<'_>, request: &Request<'_>) -> Decision {
        let mut views = self.views.borrow_mut();
        if let Some(view) = views.by_tenant.get(&subject.tenant).and_then(|clients| clients.get(subject.client_id))
            && view.identity.as_ref() == subject.identity
            && view.listener == subject.listener
        {
            return view.compiled.decide(request);
        }
        let compiled = self.compile(subject);
        let decision = compiled.decide(request);
        views.keep(subject, compiled);
        decision
    }

    /// The rules as they are for a subject.
    fn compile(&self, subject: engine::Subject<'_>) -> Compiled {
        let grants = subject.identity.and_then(|identity| identity.grants.as_deref()).map(grants_of);
        let identity = subject.identity;
        self.compiler.compile(&Subject {
            user_name: identity.and_then(|identity| identity.user_name.as_deref()),
            tenant: self.names.tenants.name(subject.tenant),
            listener: self.names.listeners.get(usize::from(subject.listener.0)).map_or("", String::as_str),
            certificate_cn: identity.and_then(|identity| identity.certificate.as_deref()),
            attributes: identity.map_or(&[], |identity| &identity.attributes),
            superuser: identity.is_some_and(|identity| identity.superuser),
            granted: grants.as_ref(),
            ..Subject::anonymous(subject.client_id)
        })
    }
}

/// Rules that authentication brought along, as the rules know them.
fn grants_of(grants: &[Grant]) -> Grants {
    let rule = |grant: &Grant| GrantedRule {
        effect: if grant.allow { Effect::Allow } else { Effect::Deny },
        action: match (grant.publish, grant.subscribe) {
            (true, false) => GrantedAction::Publish,
            (false, _) => GrantedAction::Subscribe,
            (true, true) => GrantedAction::All,
        },
        filter: grant.filter.clone(),
        literal: grant.literal,
        qos: grant.qos,
        retain: grant.retain,
    };
    Grants::new(&grants.iter().map(rule).collect::<Vec<_>>())
}

impl Views {
    fn keep(&mut self, subject: engine::Subject<'_>, compiled: Compiled) {
        if self.count >= MAX_VIEWS {
            self.by_tenant.clear();
            self.count = 0;
        }
        let view = View { identity: subject.identity.cloned(), listener: subject.listener, compiled };
        let before = self.by_tenant.entry(subject.tenant).or_default().insert(subject.client_id.into(), view);
        self.count += usize::from(before.is_none());
    }
}

/// An invalid topic was refused before; if it comes here all the same, it is not allowed.
impl engine::Access for RuleAccess {
    fn may_publish(&self, subject: engine::Subject<'_>, topic: &str, qos: QoS, retain: bool) -> bool {
        TopicName::new(topic).is_ok_and(|topic| self.decide(subject, &Request::Publish { topic, qos, retain }).allowed)
    }

    fn may_subscribe(&self, subject: engine::Subject<'_>, filter: &str, qos: QoS, shared: bool) -> bool {
        let Ok(filter) = TopicFilter::new(filter) else { return false };
        let decision = self.decide(subject, &Request::Subscribe { filter, qos });
        // Messages of a shared group are not checked again, so the whole filter has to be allowed.
        decision.allowed && !(shared && decision.filtered)
    }

    fn may_receive(&self, subject: engine::Subject<'_>, topic: &str) -> bool {
        TopicName::new(topic).is_ok_and(|topic| self.decide(subject, &Request::Receive { topic }).allowed)
    }

    fn has_right(&self, subject: engine::Subject<'_>, right: engine::Right<'_>) -> bool {
        let decision = match right {
            engine::Right::Publish { topic, qos, retain } => {
                TopicName::new(topic).map(|topic| self.decide(subject, &Request::Publish { topic, qos, retain })).ok()
            }
            engine::Right::Receive { topic } => {
                TopicName::new(topic).map(|topic| self.decide(subject, &Request::Receive { topic })).ok()
            }
            engine::Right::Subscribe { filter, qos } => {
                TopicFilter::new(filter).map(|filter| self.decide(subject, &Request::Subscribe { filter, qos })).ok()
            }
        };
        decision.is_some_and(|decision| decision.allowed && !decision.filtered && decision.by != DecidedBy::Default)
    }

    fn decides_on_delivery(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use tidegate_acl::{Effect, RulesBuilder};
    use tidegate_engine::Access;

    use super::*;

    fn access(text: &str) -> RuleAccess {
        let mut builder = RulesBuilder::new();
        builder.rules_file("rules", text.as_bytes()).unwrap();
        RuleAccess::new(Arc::new(builder.build(Effect::Deny)), Names::default())
    }

    fn client(client_id: &str) -> engine::Subject<'_> {
        let listener = engine::ListenerId(0);
        engine::Subject { tenant: TenantId::DEFAULT, client_id, listener, identity: None }
    }

    #[test]
    fn each_client_has_its_own_view_however_many_there_are() {
        let access = access("[[rule]]\nallow = true\ntopics = ['own/${clientid}']\n");
        for number in 0..MAX_VIEWS + 10 {
            let name = number.to_string();
            assert!(access.may_publish(client(&name), &format!("own/{name}"), QoS::AtMostOnce, false));
            assert!(!access.may_publish(client(&name), "own/x", QoS::AtMostOnce, false));
        }
        assert!(access.views.borrow().count <= MAX_VIEWS);
        assert!(access.may_subscribe(client("0"), "own/0", QoS::AtMostOnce, false));
    }

    #[test]
    fn a_default_is_no_right() {
        let mut builder = RulesBuilder::new();
        builder.rules_file("rules", b"[[rule]]\nallow = true\nclients = ['boss']\ntopics = ['ctx/#']\n").unwrap();
        let access = RuleAccess::new(Arc::new(builder.build(Effect::Allow)), Names::default());
        let (topic, filter, qos) = ("ctx/to/all", "ctx/to/#", QoS::AtMostOnce);
        assert!(access.may_publish(client("c"), topic, qos, false), "it is the default");
        for right in [
            engine::Right::Publish { topic, qos, retain: false },
            engine::Right::Receive { topic },
            engine::Right::Subscribe { filter, qos },
        ] {
            assert!(!access.has_right(client("c"), right), "{right:?}");
            assert!(access.has_right(client("boss"), right), "{right:?}");
        }
    }

    #[test]
    fn an_invalid_topic_is_not_allowed() {
        let access = access("[[rule]]\nallow = true\ntopics = ['#']\n");
        assert!(!access.may_publish(client("c"), "a/#", QoS::AtMostOnce, false));
        assert!(!access.may_subscribe(client("c"), "a/#/b", QoS::AtMostOnce, false));
        assert!(access.may_subscribe(client("c"), "a/#", QoS::AtMostOnce, false));
    }
}
