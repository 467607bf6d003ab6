//! What becomes of each field of a Service and of an EndpointSlice: see [`super::schema`].

use super::check;
use super::rule::Rule::{Anew, Carry, Drop, Each, If, In, Refuse};
use super::rule::{Fields, fields};
use super::schema::METADATA;

const ANEW: &str = "over there a Service has addresses of its own, for guests alone";
const OF_HOME: &str = "says where things are at home";
const OUTSIDE: &str = "would take addresses of the provider's network";

fields! {
    /// A Service as a whole.
    SERVICE = "Service" {
        "apiVersion": Carry, "kind": Carry, "metadata": In(&METADATA), "spec": In(&SERVICE_SPEC),
        "status": Drop(OF_HOME),
    }
    /// What a Service is to be. Which addresses it has over there is the provider's to say, and
    /// nobody outside of the cluster reaches it; a selector would choose among the provider's pods.
    SERVICE_SPEC = "ServiceSpec" {
        "allocateLoadBalancerNodePorts": Drop(OF_HOME), "clusterIP": If(&check::NO_CLUSTER_IP),
        "clusterIPs": Drop(OF_HOME), "externalIPs": Refuse(OUTSIDE), "externalName": Refuse(OUTSIDE),
        "externalTrafficPolicy": Drop(OF_HOME), "healthCheckNodePort": Drop(OF_HOME),
        "internalTrafficPolicy": Drop(OF_HOME), "ipFamilies": Anew(ANEW), "ipFamilyPolicy": Anew(ANEW),
        "loadBalancerClass": Refuse(OUTSIDE), "loadBalancerIP": Refuse(OUTSIDE),
        "loadBalancerSourceRanges": Refuse(OUTSIDE), "ports": Each(&SERVICE_PORT),
        "publishNotReadyAddresses": Drop(OF_HOME), "selector": Refuse("would choose among other pods"),
        "sessionAffinity": Carry, "sessionAffinityConfig": In(&SESSION_AFFINITY),
        "trafficDistribution": Drop(OF_HOME), "type": Anew(ANEW),
    }
    SERVICE_PORT = "ServicePort" {
        "appProtocol": Carry, "name": Carry, "nodePort": Refuse(OUTSIDE), "port": Carry,
        "protocol": If(&check::PROTOCOL), "targetPort": Drop(OF_HOME),
    }
    SESSION_AFFINITY = "SessionAffinityConfig" { "clientIP": In(&CLIENT_IP), }
    CLIENT_IP = "ClientIPConfig" { "timeoutSeconds": Carry, }
    /// An EndpointSlice as a whole. Its addresses are looked at one by one.
    ENDPOINT_SLICE = "EndpointSlice" {
        "addressType": If(&check::ADDRESS_TYPE), "apiVersion": Carry, "endpoints": Each(&ENDPOINT),
        "kind": Carry, "metadata": In(&METADATA), "ports": Each(&ENDPOINT_PORT),
    }
    /// Nodes, zones and pods of home mean nothing over there.
    ENDPOINT = "Endpoint" {
        "addresses": Carry, "conditions": In(&CONDITIONS), "deprecatedTopology": Drop(OF_HOME),
        "hints": Drop(OF_HOME), "hostname": Carry, "nodeName": Drop(OF_HOME), "targetRef": Drop(OF_HOME), "zone": Drop(OF_HOME),
    }
    CONDITIONS = "EndpointConditions" { "ready": Carry, "serving": Carry, "terminating": Carry, }
    ENDPOINT_PORT = "EndpointPort" {
        "appProtocol": Carry, "name": Carry, "port": Carry, "protocol": If(&check::PROTOCOL),
    }
}
