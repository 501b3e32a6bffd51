//! The client whose request is decided.

use std::fmt;

use crate::grants::Grants;
use crate::pattern::Placeholder;

/// A client, as far as rules ask about it.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    /// The client id.
    pub client_id: &'a str,
    /// The user name under which the client was let in; `None` for an anonymous one.
    pub user_name: Option<&'a str>,
    /// The tenant's name.
    pub tenant: &'a str,
    /// The name of the listener that it came through.
    pub listener: &'a str,
    /// The common name of its certificate, if a verified one was presented.
    pub certificate_cn: Option<&'a str>,
    /// Attributes found by authentication, such as the claims of its token: names and values. If a name has several
    /// values, the first fills in placeholders.
    pub attributes: &'a [(String, String)],
    /// Whether no rule holds for it.
    pub superuser: bool,
    /// Rights granted by a token or an external authority; they replace all rules.
    pub granted: Option<&'a Grants>,
}

impl<'a> Subject<'a> {
    /// An anonymous client of the default tenant, with nothing but its id.
    pub const fn anonymous(client_id: &'a str) -> Self {
        Self {
            client_id,
            user_name: None,
            tenant: "",
            listener: "",
            certificate_cn: None,
            attributes: &[],
            superuser: false,
            granted: None,
        }
    }

    /// The value of a placeholder; of an attribute with several values the first.
    pub(crate) fn value(&self, placeholder: &Placeholder) -> Option<&'a str> {
        match placeholder {
            Placeholder::ClientId => Some(self.client_id),
            Placeholder::UserName => self.user_name,
            Placeholder::Tenant => Some(self.tenant),
            Placeholder::Listener => Some(self.listener),
            Placeholder::CertificateCn => self.certificate_cn,
            Placeholder::Claim(name) => {
                self.attributes.iter().find(|(known, _)| *known == **name).map(|(_, value)| value.as_str())
            }
        }
    }
}

/// Attributes come from tokens and may be secret, so they are counted, not shown.
impl fmt::Debug for Subject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject")
            .field("client_id", &self.client_id)
            .field("user_name", &self.user_name)
            .field("tenant", &self.tenant)
            .field("listener", &self.listener)
            .field("certificate_cn", &self.certificate_cn)
            .field("attributes", &self.attributes.len())
            .field("superuser", &self.superuser)
            .field("granted", &self.granted.is_some())
            .finish()
    }
}
