//! Metrics of listeners for HTTP and CoAP. Without such a listener they have no samples.

metrics! { |it, out|
    /// Every metric of these listeners, in the order in which they are written.
    Counter "tidegate_http_requests_total" ["route", "outcome"] => {
        for (route, outcome, count) in it.status.http.iter().flat_map(|http| &http.requests) {
            out.add(&[route, outcome], *count);
        }
    }, "Requests over HTTP, by the first part of the path and by outcome.";
    Counter "tidegate_http_body_bytes_total" [] => out.any(it.status.http.as_ref().map(|http| http.body_bytes)),
        "Bytes of the bodies of requests over HTTP.";
    Counter "tidegate_http_messages_sent_total" ["way"] => {
        for (way, messages, _) in it.status.http.iter().flat_map(|http| &http.sent) {
            out.add(&[way], *messages);
        }
    }, "Messages that HTTP clients were sent, by way. A message that is sent again counts again.";
    Counter "tidegate_http_message_bytes_sent_total" ["way"] => {
        for (way, _, bytes) in it.status.http.iter().flat_map(|http| &http.sent) {
            out.add(&[way], *bytes);
        }
    }, "Bytes of these messages as JSON.";
    Counter "tidegate_http_connections_refused_total" [] =>
        out.any(it.status.http.as_ref().map(|http| http.connections_refused)),
        "HTTP connections that were closed at once, as the listener had `max_connections`.";
    Gauge "tidegate_http_queues" [] => out.any(it.status.http.as_ref().map(|http| http.queues)),
        "Queues of HTTP clients whose sessions are connected. Messages of other queues wait in sessions without a connection.";
    Gauge "tidegate_http_websockets" [] => out.any(it.status.http.as_ref().map(|http| http.websockets)),
        "WebSockets of `/subscribe` that are open.";
    Counter "tidegate_coap_requests_total" ["method", "outcome"] => {
        for (method, outcome, count) in it.status.coap.iter().flat_map(|coap| &coap.requests) {
            out.add(&[method, outcome], *count);
        }
    }, "Requests over CoAP that were answered, by method and by outcome.";
    Counter "tidegate_coap_datagrams_total" ["direction"] => {
        if let Some(coap) = &it.status.coap {
            out.directions(coap.received.0, coap.sent.0);
        }
    }, "Datagrams of CoAP.";
    Counter "tidegate_coap_bytes_total" ["direction"] => {
        if let Some(coap) = &it.status.coap {
            out.directions(coap.received.1, coap.sent.1);
        }
    }, "Bytes of these datagrams.";
    Counter "tidegate_coap_dropped_total" ["cause"] => {
        for (cause, count) in it.status.coap.iter().flat_map(|coap| &coap.dropped) {
            out.add(&[cause], *count);
        }
    }, "Datagrams and messages of CoAP that were left out, by cause.";
    Counter "tidegate_coap_notifications_total" [] => out.any(it.status.coap.as_ref().map(|coap| coap.notifications)),
        "Messages that observers over CoAP were sent.";
    Counter "tidegate_coap_repeated_total" [] => out.any(it.status.coap.as_ref().map(|coap| coap.repeated)),
        "Confirmable messages of CoAP that were sent again, as no acknowledgement had come.";
    Gauge "tidegate_coap_clients" [] => out.any(it.status.coap.as_ref().map(|coap| coap.clients)),
        "Addresses of CoAP clients that are remembered.";
    Gauge "tidegate_coap_sessions" [] => out.any(it.status.coap.as_ref().map(|coap| coap.sessions)),
        "Sessions of CoAP clients.";
}
