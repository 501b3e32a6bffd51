//! Shared groups as one text, as the keys of a store have them.

use crate::ids::TenantId;
use crate::link::record::GroupName;
use crate::wire::WireError;

impl<'a> GroupName<'a> {
    /// The share name and the filter behind a slash. A share name has no slash.
    pub(crate) fn text(&self) -> String {
        format!("{}/{}", self.share, self.filter)
    }

    /// Reads the output of [`GroupName::text`].
    pub(crate) fn of_text(tenant: TenantId, text: &'a str) -> Result<Self, WireError> {
        let (share, filter) = text.split_once('/').ok_or(WireError { reading: "a shared group" })?;
        Ok(Self { tenant, share, filter })
    }
}
