//! Reads of a Corefile, by which CoreDNS is configured, what the cluster calls itself: the zone of its
//! plugin `kubernetes` that is no zone of addresses. What is imported of other files is not read.

use mercato_protocol::names::is_domain;

/// The first such zone, lower case, without a dot at the end.
pub(super) fn domain(corefile: &str) -> Option<String> {
    let mut blocks = Blocks::default();
    let lines = corefile.lines().map(words);
    lines.filter(|words| !words.is_empty()).find_map(|words| blocks.take(&words))
}

/// The blocks that a line is in. A block of servers lists their zones before its brace.
#[derive(Default)]
struct Blocks {
    /// How many braces are open.
    depth: usize,
    /// The zones of the block of servers.
    zones: Vec<String>,
}

impl Blocks {
    /// Takes the next line; gives what it says.
    fn take(&mut self, words: &[String]) -> Option<String> {
        let opens = words.last().is_some_and(|word| word == "{");
        let said = &words[..words.len() - usize::from(opens)];
        let found = match self.depth {
            0 => {
                // The keys of a block may be on several lines.
                let is_import = said.first().is_some_and(|word| word == "import");
                let zones = said.iter().filter(|word| *word != "}" && !is_import);
                self.zones.extend(zones.cloned());
                None
            }
            1 if said.first().is_some_and(|word| word == "kubernetes") => {
                let own = first_domain(&said[1..]);
                // Without zones of its own it has those of the servers.
                own.or_else(|| if said.len() > 1 { None } else { first_domain(&self.zones) })
            }
            _ => None,
        };
        let closed = words.iter().filter(|word| *word == "}").count();
        self.depth = (self.depth + usize::from(opens)).saturating_sub(closed);
        if closed > 0 && self.depth == 0 {
            self.zones.clear();
        }
        found
    }
}

/// The words of a line, without quotes and what is behind a `#`.
fn words(line: &str) -> Vec<String> {
    let words = line.split_whitespace().take_while(|word| !word.starts_with('#'));
    words.map(|word| word.trim_matches(['"', ',']).to_owned()).collect()
}

fn first_domain(zones: &[String]) -> Option<String> {
    zones.iter().find_map(|zone| {
        let zone = zone.split_once("://").map_or(zone.as_str(), |(_, zone)| zone);
        let zone = zone.split_once(':').map_or(zone, |(zone, _)| zone);
        let zone = zone.trim_end_matches('.').to_lowercase();
        let is_reverse = ["in-addr.arpa", "ip6.arpa"].iter().any(|end| zone.ends_with(end));
        (!is_reverse && is_domain(&zone)).then_some(zone)
    })
}

#[cfg(test)]
mod tests {
    const KUBEADM: &str = "\
.:53 {
    errors
    health {
       lameduck 5s
    }
    ready
    kubernetes rome.example in-addr.arpa ip6.arpa {
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }
    prometheus :9153
    forward . /etc/resolv.conf {
       max_concurrent 1000
    }
    cache 30 {
       disable success cluster.local
       disable denial cluster.local
    }
    loop
    reload
    loadbalance
}
";
    const K3S: &str = "\
.:53 {
    errors
    health
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
      pods insecure
      fallthrough in-addr.arpa ip6.arpa
    }
    hosts /etc/coredns/NodeHosts {
      ttl 60
      reload 15s
      fallthrough
    }
    prometheus :9153
    cache 30
    loop
    reload
    loadbalance
    import /etc/coredns/custom/*.override
    forward . /etc/resolv.conf
}
import /etc/coredns/custom/*.server
";
    const EKS: &str = "\
.:53 {
    errors
    health {
        lameduck 5s
      }
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
      pods insecure
      fallthrough in-addr.arpa ip6.arpa
    }
    prometheus :9153
    forward . /etc/resolv.conf
    cache 30
    loop
    reload
    loadbalance
}
";
    const RKE2: &str = "\
.:53 {
    errors 
    health  {
        lameduck 10s
    }
    ready 
    kubernetes  k8s.alps.example  cluster.local in-addr.arpa ip6.arpa {
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
        ttl 30
    }
    prometheus  0.0.0.0:9153
    forward  . /etc/resolv.conf
    cache  30
    loop 
    reload 
    loadbalance 
}
";
    const OPENSHIFT: &str = "\
# foo
corp.example:5353 {
    prometheus 127.0.0.1:9153
    forward . 192.0.2.1 {
        policy random
    }
}
.:5353 {
    bufsize 1232
    errors
    log . {
        class error
    }
    health {
        lameduck 20s
    }
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
    }
    prometheus 127.0.0.1:9153
    cache 900 {
        denial 9984 30
    }
    reload
}
hostname.bind:5353 {
    chaos
}
";
    /// NodeLocal DNSCache, whose servers have zones, and no plugin of Kubernetes.
    const NODE_LOCAL: &str = "\
cluster.local:53 {
    errors
    cache {
            success 9984 30
            denial 9984 5
    }
    reload
    loop
    bind 169.254.20.10 10.96.0.10
    forward . 10.96.0.11 {
            force_tcp
    }
    prometheus :9253
    health 169.254.20.10:8080
}
";
    /// What GKE's kube-dns has in the place of one.
    const KUBE_DNS: &str = "{\"corp.example\": [\"192.0.2.1\"]}";

    #[test]
    fn installers_corefiles_are_read() {
        for (installer, corefile, domain) in [
            ("kubeadm", KUBEADM, Some("rome.example")),
            ("k3s", K3S, Some("cluster.local")),
            ("EKS", EKS, Some("cluster.local")),
            ("RKE2", RKE2, Some("k8s.alps.example")),
            ("OpenShift", OPENSHIFT, Some("cluster.local")),
            ("NodeLocal DNSCache", NODE_LOCAL, None),
            ("kube-dns", KUBE_DNS, None),
        ] {
            assert_eq!(super::domain(corefile).as_deref(), domain, "{installer}");
        }
    }

    #[test]
    fn what_people_write_is_read() {
        for (corefile, domain) in [
            (".:53 {\n kubernetes Rome.Example. {\n }\n}", Some("rome.example")),
            (".:53 {\n kubernetes \"rome.example\" # cluster.local\n}", Some("rome.example")),
            (".:53 {\n kubernetes k8s.home.arpa\n}", Some("k8s.home.arpa")),
            ("dns://rome.example:53, 10.in-addr.arpa {\n kubernetes\n}", Some("rome.example")),
            (
                "a.example\nb.example {\n log\n}\nrome.example {\n kubernetes\n}",
                Some("rome.example"),
            ),
            (".:53 {\n kubernetes\n}", None),
            (".:53 {\n kubernetes in-addr.arpa ip6.arpa\n}", None),
            ("rome.example {\n kubernetes in-addr.arpa\n}", None),
            ("import snippets\n.:53 {\n kubernetes\n}", None),
            (
                ".:53 {\n # kubernetes rome.example\n forward . {\n kubernetes no.example\n }\n}",
                None,
            ),
            (".:53 {\n kubernetes -- ..\n}", None),
            ("}\n}\nkubernetes\n{\n{", None),
            ("", None),
        ] {
            assert_eq!(super::domain(corefile).as_deref(), domain, "{corefile}");
        }
    }
}
