//! SUBSCRIBE and UNSUBSCRIBE.

use std::collections::BTreeMap;
use std::time::Instant;

use tidegate_mqtt::{
    EncodeError, PacketId, PacketType, ReasonCode, SubAck, Subscribe, Subscriptions, TopicFilters, UnsubAck,
    Unsubscribe, UserProperties,
};

use super::wire::Wire;
use super::{Client, owned_pairs};
use crate::packet_ids::PacketIds;
use crate::publish::borrowed_pairs;
use crate::{Event, ProtocolError, RequestAnswer, RequestError, RequestToken, SubscribeRequest, UnsubscribeRequest};

/// A SUBSCRIBE or UNSUBSCRIBE packet that waits for its answer.
#[derive(Clone, Copy, Debug)]
struct Request {
    token: RequestToken,
    /// The packet that answers it.
    answer: PacketType,
    /// How many Topic Filters it has.
    filters: usize,
}

impl Client {
    /// Sends a SUBSCRIBE packet. The token returns with [`Event::Subscribed`] or [`Event::RequestLost`].
    ///
    /// # Errors
    ///
    /// When there is no connection, or the server has said that it cannot serve such a request.
    pub fn subscribe(&mut self, now: Instant, request: &SubscribeRequest) -> Result<RequestToken, RequestError> {
        check_request(&self.wire, request.needs_v5())?;
        if request.subscription_identifier.is_some() && !self.wire.server.subscription_identifier_available {
            let reason = ReasonCode::SubscriptionIdentifiersNotSupported;
            return Err(RequestError::NotSupported(reason));
        }
        let mut subscriptions = Vec::with_capacity(request.subscriptions.len());
        for (filter, options) in &request.subscriptions {
            let filter = filter.as_filter()?;
            self.wire.server.check_filter(filter).map_err(RequestError::NotSupported)?;
            subscriptions.push((filter, *options));
        }
        let user_properties = borrowed_pairs(&request.user_properties);
        let identifier = request.subscription_identifier;
        let (version, max) = self.wire.encoding();
        let filters = subscriptions.len();
        self.request(now, PacketType::SubAck, filters, |packet_id, out| {
            let packet = Subscribe {
                packet_id,
                subscription_identifier: identifier.map(std::num::NonZeroU32::get),
                user_properties: UserProperties::new(&user_properties),
                subscriptions: Subscriptions::new(&subscriptions),
            };
            packet.encode_within(version, max, out)
        })
    }

    /// Sends an UNSUBSCRIBE packet. The token returns with [`Event::Unsubscribed`] or [`Event::RequestLost`].
    ///
    /// # Errors
    ///
    /// When there is no connection, or the packet cannot be encoded.
    pub fn unsubscribe(&mut self, now: Instant, request: &UnsubscribeRequest) -> Result<RequestToken, RequestError> {
        check_request(&self.wire, (!request.user_properties.is_empty()).then_some("properties"))?;
        let filters = request.filters.iter();
        let filters = filters.map(crate::TopicFilterBuf::as_filter);
        let filters: Vec<_> = filters.collect::<Result<_, _>>()?;
        let user_properties = borrowed_pairs(&request.user_properties);
        let (version, max) = self.wire.encoding();
        self.request(now, PacketType::UnsubAck, filters.len(), |packet_id, out| {
            let packet = Unsubscribe {
                packet_id,
                user_properties: UserProperties::new(&user_properties),
                topic_filters: TopicFilters::new(&filters),
            };
            packet.encode_within(version, max, out)
        })
    }

    fn request(
        &mut self,
        now: Instant,
        answer: PacketType,
        filters: usize,
        encode: impl FnOnce(PacketId, &mut Vec<u8>) -> Result<(), EncodeError>,
    ) -> Result<RequestToken, RequestError> {
        let packet_id = self.packet_ids.allocate_for_request().ok_or(RequestError::NoPacketId)?;
        if let Err(error) = self.wire.send(now, |out| encode(packet_id, out)) {
            self.packet_ids.release(packet_id);
            return Err(error.into());
        }
        let token = RequestToken(self.tokens.next());
        let request = Request { token, answer, filters };
        self.requests.open.insert(packet_id, request);
        Ok(token)
    }
}

/// Owns the requests that wait for their answers.
#[derive(Debug, Default)]
pub(super) struct Requests {
    open: BTreeMap<PacketId, Request>,
}

impl Requests {
    pub(super) fn handle_suback(
        &mut self,
        packet: &SubAck<'_>,
        packet_ids: &mut PacketIds,
        wire: &mut Wire,
    ) -> Result<(), ProtocolError> {
        let reason_codes: Vec<_> = packet.reason_codes.iter().collect();
        let answer = RequestAnswer {
            token: RequestToken(0),
            packet_id: packet.packet_id,
            reason_codes,
            reason_string: packet.reason_string.map(str::to_owned),
            user_properties: owned_pairs(&packet.user_properties),
        };
        if let Some(answer) = self.answer(PacketType::SubAck, answer, packet_ids)? {
            wire.push(Event::Subscribed(answer));
        }
        Ok(())
    }

    pub(super) fn handle_unsuback(
        &mut self,
        packet: &UnsubAck<'_>,
        packet_ids: &mut PacketIds,
        wire: &mut Wire,
    ) -> Result<(), ProtocolError> {
        let mut reason_codes: Vec<_> = packet.reason_codes.iter().collect();
        if !wire.options.version.is_v5() {
            let request = self.open.get(&packet.packet_id);
            let filters = request.map_or(0, |request| request.filters);
            reason_codes = vec![ReasonCode::Success; filters];
        }
        let answer = RequestAnswer {
            token: RequestToken(0),
            packet_id: packet.packet_id,
            reason_codes,
            reason_string: packet.reason_string.map(str::to_owned),
            user_properties: owned_pairs(&packet.user_properties),
        };
        if let Some(answer) = self.answer(PacketType::UnsubAck, answer, packet_ids)? {
            wire.push(Event::Unsubscribed(answer));
        }
        Ok(())
    }

    /// Finds the request for an answer. `None` if there is no such request, which does not justify closing the
    /// connection.
    fn answer(
        &mut self,
        packet: PacketType,
        answer: RequestAnswer,
        packet_ids: &mut PacketIds,
    ) -> Result<Option<RequestAnswer>, ProtocolError> {
        let packet_id = answer.packet_id;
        let Some(request) = self.open.get(&packet_id).copied() else {
            return Ok(None);
        };
        if request.answer != packet {
            return Err(ProtocolError::WrongAcknowledgement { packet, packet_id });
        }
        if answer.reason_codes.len() != request.filters {
            return Err(ProtocolError::ReasonCodeCount {
                packet,
                expected: request.filters,
                found: answer.reason_codes.len(),
            });
        }
        self.open.remove(&packet_id);
        packet_ids.release(packet_id);
        let token = request.token;
        Ok(Some(RequestAnswer { token, ..answer }))
    }

    /// The connection has ended: no request gets an answer.
    pub(super) fn lose(&mut self, packet_ids: &mut PacketIds, wire: &mut Wire) {
        for (packet_id, request) in std::mem::take(&mut self.open) {
            packet_ids.release(packet_id);
            wire.push(Event::RequestLost(request.token));
        }
    }
}

fn check_request(wire: &Wire, needs_v5: Option<&'static str>) -> Result<(), RequestError> {
    if !wire.is_connected() {
        return Err(RequestError::NotConnected);
    }
    match needs_v5 {
        Some(feature) if !wire.options.version.is_v5() => Err(RequestError::NeedsV5 { feature }),
        _ => Ok(()),
    }
}
