//! What becomes of each field of a Service and of an EndpointSlice: see [`super::schema`].

use super::check;
use super::rule::Rule::{Carry, Drop, Each, If, In, Refuse};
use super::rule::{Fields, fields};
use super::schema::METADATA;

const OUTSIDE: &str = "would take addresses of the provider's network";

fields! {
    /// A Service as a whole.
    SERVICE = "Service" {
        "apiVersion": Carry, "kind": Carry, "metadata": In(&METADATA), "spec": In(&SERVICE_SPEC),
        "status": Drop,
    }
    /// What a Service is to be. Which addresses it has over there is the provider's to say, and
    /// nobody outside of the cluster reaches it; a selector would choose among the provider's pods.
    SERVICE_SPEC = "ServiceSpec" {
        "allocateLoadBalancerNodePorts": Drop, "clusterIP": If(check::no_cluster_ip),
        "clusterIPs": Drop, "externalIPs": Refuse(OUTSIDE), "externalName": Refuse(OUTSIDE),
        "externalTrafficPolicy": Drop, "healthCheckNodePort": Drop,
        "internalTrafficPolicy": Drop, "ipFamilies": Drop, "ipFamilyPolicy": Drop,
        "loadBalancerClass": Refuse(OUTSIDE), "loadBalancerIP": Refuse(OUTSIDE),
        "loadBalancerSourceRanges": Refuse(OUTSIDE), "ports": Each(&SERVICE_PORT),
        "publishNotReadyAddresses": Drop, "selector": Refuse("would choose among other pods"),
        "sessionAffinity": Carry, "sessionAffinityConfig": In(&SESSION_AFFINITY),
        "trafficDistribution": Drop, "type": Drop,
    }
    SERVICE_PORT = "ServicePort" {
        "appProtocol": Carry, "name": Carry, "nodePort": Refuse(OUTSIDE), "port": Carry,
        "protocol": If(check::protocol), "targetPort": Drop,
    }
    SESSION_AFFINITY = "SessionAffinityConfig" { "clientIP": In(&CLIENT_IP), }
    CLIENT_IP = "ClientIPConfig" { "timeoutSeconds": Carry, }
    /// An EndpointSlice as a whole. Its addresses are looked at one by one.
    ENDPOINT_SLICE = "EndpointSlice" {
        "addressType": If(check::address_type), "apiVersion": Carry, "endpoints": Each(&ENDPOINT),
        "kind": Carry, "metadata": In(&METADATA), "ports": Each(&ENDPOINT_PORT),
    }
    /// Nodes, zones and pods of home mean nothing over there.
    ENDPOINT = "Endpoint" {
        "addresses": Carry, "conditions": In(&CONDITIONS), "deprecatedTopology": Drop,
        "hints": Drop, "hostname": Carry, "nodeName": Drop, "targetRef": Drop, "zone": Drop,
    }
    CONDITIONS = "EndpointConditions" { "ready": Carry, "serving": Carry, "terminating": Carry, }
    ENDPOINT_PORT = "EndpointPort" {
        "appProtocol": Carry, "name": Carry, "port": Carry, "protocol": If(check::protocol),
    }
}
