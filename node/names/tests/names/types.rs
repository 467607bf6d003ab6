//! What is asked for beside addresses: all ports of a name, and types of which there is nothing.

use hickory_proto::rr::RecordType::{self, ANY, CAA, HTTPS, MX, NS, SRV};

use crate::samples::LEASE;
use crate::table::asked;

#[test]
fn a_name_without_a_port_has_all_ports_and_no_type_is_refused() {
    let web = "web.shop.svc.rome.example.";
    let members = "members.shop.svc.rome.example.";
    let table: &[(&str, RecordType, &str)] = &[
        // Each port of a Service with an address, also one that has no name.
        (
            web,
            SRV,
            "0 33 443 web.shop.svc.rome.example., 0 33 80 web.shop.svc.rome.example., \
             0 33 81 web.shop.svc.rome.example.",
        ),
        // Each port of each endpoint of a headless one.
        (
            members,
            SRV,
            "0 50 5432 10-201-3-8.members.shop.svc.rome.example., \
             0 50 5432 db-0.members.shop.svc.rome.example.",
        ),
        // And of one endpoint, whichever way it is called.
        (
            "db-0.members.shop.svc.rome.example.",
            SRV,
            "0 100 5432 db-0.members.shop.svc.rome.example.",
        ),
        (
            "10-201-3-8.members.shop.svc.rome.example.",
            SRV,
            "0 100 5432 10-201-3-8.members.shop.svc.rome.example.",
        ),
        ("web-0.web.shop.svc.rome.example.", SRV, "0 100 8080 web-0.web.shop.svc.rome.example."),
        ("db-1.members.shop.svc.rome.example.", SRV, "no name"),
        ("none.shop.svc.rome.example.", SRV, "no name"),
        ("nobody.shop.svc.rome.example.", SRV, "no data"),
        ("api.bank.svc.rome.example.", SRV, "no data"),
        ("outside.shop.svc.rome.example.", SRV, "is db.example.org."),
        ("shop.svc.rome.example.", SRV, "no data"),
        ("rome.example.", SRV, "no data"),
        ("10-42-0-7.shop.pod.rome.example.", SRV, "no data"),
    ];
    for (name, of, expected) in table {
        assert_eq!(asked(LEASE, name, *of), *expected, "{name} {of}");
    }
    let there =
        [web, members, "shop.svc.rome.example.", "rome.example.", "7.0.96.10.in-addr.arpa."];
    for of in [ANY, CAA, HTTPS, MX, NS] {
        for name in there {
            assert_eq!(asked(LEASE, name, of), "no data", "{name} {of}");
        }
        for name in ["none.shop.svc.rome.example.", "web.none.svc.rome.example."] {
            assert_eq!(asked(LEASE, name, of), "no name", "{name} {of}");
        }
    }
    // Of the Internet it is asked by nobody's order: the answer is long.
    assert_eq!(asked(LEASE, "example.org.", ANY), "refused");
    assert_eq!(asked(LEASE, "example.org.", MX), "elsewhere");
}
