//! Rules as an engine asks them: on a shard's thread, from memory.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use tidegate_acl::{Compiled, Compiler, Request, Rules, Subject};
use tidegate_engine::{self as engine, TenantId};
use tidegate_mqtt::{QoS, TopicFilter, TopicName};

use super::tenants::TenantNames;

/// Views of clients that a shard remembers. When there are more, all are forgotten and made again as they are asked for, which
/// costs each client a few microseconds.
const MAX_VIEWS: usize = 16_384;

/// The rules, on one shard.
#[derive(Debug)]
pub(crate) struct RuleAccess {
    compiler: Compiler,
    tenants: TenantNames,
    views: RefCell<Views>,
}

#[derive(Debug, Default)]
struct Views {
    by_tenant: HashMap<TenantId, HashMap<Box<str>, Compiled>>,
    count: usize,
}

impl RuleAccess {
    /// Asks these rules.
    pub(crate) fn new(rules: Arc<Rules>, tenants: TenantNames) -> Self {
        Self { compiler: Compiler::new(rules), tenants, views: RefCell::default() }
    }

    fn allows(&self, subject: engine::Subject<'_>, request: &Request<'_>) -> bool {
        let mut views = self.views.borrow_mut();
        if let Some(view) = views.by_tenant.get(&subject.tenant).and_then(|clients| clients.get(subject.client_id)) {
            return view.decide(request).allowed;
        }
        let view = self.compiler.compile(&self.subject(subject));
        let allowed = view.decide(request).allowed;
        views.keep(subject, view);
        allowed
    }

    /// The subject as rules know it.
    fn subject<'a>(&'a self, subject: engine::Subject<'a>) -> Subject<'a> {
        Subject { tenant: self.tenants.name(subject.tenant), ..Subject::anonymous(subject.client_id) }
    }
}

impl Views {
    fn keep(&mut self, subject: engine::Subject<'_>, view: Compiled) {
        if self.count >= MAX_VIEWS {
            self.by_tenant.clear();
            self.count = 0;
        }
        self.by_tenant.entry(subject.tenant).or_default().insert(subject.client_id.into(), view);
        self.count += 1;
    }
}

/// What is no topic was refused before; if it comes here all the same, it is not allowed.
impl engine::Access for RuleAccess {
    fn may_publish(&self, subject: engine::Subject<'_>, topic: &str, qos: QoS, retain: bool) -> bool {
        TopicName::new(topic).is_ok_and(|topic| self.allows(subject, &Request::Publish { topic, qos, retain }))
    }

    fn may_subscribe(&self, subject: engine::Subject<'_>, filter: &str, qos: QoS) -> bool {
        TopicFilter::new(filter).is_ok_and(|filter| self.allows(subject, &Request::Subscribe { filter, qos }))
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
        RuleAccess::new(Arc::new(builder.build(Effect::Deny)), TenantNames::default())
    }

    fn client(client_id: &str) -> engine::Subject<'_> {
        engine::Subject { tenant: TenantId::DEFAULT, client_id }
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
        assert!(access.may_subscribe(client("0"), "own/0", QoS::AtMostOnce));
    }

    #[test]
    fn what_is_no_topic_is_not_allowed() {
        let access = access("[[rule]]\nallow = true\ntopics = ['#']\n");
        assert!(!access.may_publish(client("c"), "a/#", QoS::AtMostOnce, false));
        assert!(!access.may_subscribe(client("c"), "a/#/b", QoS::AtMostOnce));
        assert!(access.may_subscribe(client("c"), "a/#", QoS::AtMostOnce));
    }
}
