//! What `mercato doctor` says of a real cluster.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use mercato_kubelet::diagnose::{self, DaemonSet, Shares, Stranded};
use mercato_kubelet::offload_namespace::{Known, OptedIn};
use mercato_kubelet::{Cluster, crd, rights};
use mercato_protocol::workload::is_reserved;

use super::shared::{Shared, held, put_back};
use crate::doctor::{Finding, clock, uninstall};

const RIGHTS: &str = "rights";
const NODES: &str = "daemonsets";

/// Looks at all of the cluster that is described so, if it has answered and there is no trouble.
pub(super) fn examine(
    described: String,
    shared: Option<Arc<Shared>>,
    trouble: Option<String>,
) -> BoxFuture<'static, Vec<Finding>> {
    async move {
        let Some(shared) = shared.filter(|_| trouble.is_none()) else {
            let why = trouble.unwrap_or_default();
            return vec![
                Finding::fail("kubernetes", why)
                    .todo("see whether kubectl reaches it with the same kubeconfig")
                    .todo("it is tried again by itself; nothing has to be restarted"),
            ];
        };
        let mut findings = vec![Finding::ok("kubernetes", described)];
        findings.extend(account(&shared.cluster).await);
        findings.push(policies_of_account(&shared.cluster, &shared.account.user).await);
        findings.push(rights_of_uninstall(&shared.cluster).await);
        findings.push(custom_resources(&shared.cluster).await);
        findings.push(time(&shared.cluster).await);
        findings.push(certificates(&shared));
        findings.push(writes(&shared));
        findings.push(kept(&shared));
        findings.extend(hidden_devices(&shared));
        findings.extend(node_names(&shared.cluster).await);
        findings.extend(node_addresses(&shared.cluster).await);
        let opted_in = shared.opt_ins.known().borrow().clone();
        findings.extend(daemon_sets(&shared.cluster, &opted_in).await);
        findings.extend(stranded(&shared.cluster, &opted_in).await);
        findings
    }
    .boxed()
}

/// What was put back in the last hour.
fn kept(shared: &Shared) -> Finding {
    const CHECK: &str = "put back";
    let lines = put_back(&shared.kept.recent());
    if lines.is_empty() {
        return Finding::ok(CHECK, "nobody has changed what keeps guests within their contract");
    }
    Finding::warn(CHECK, lines.join("; ")).todo(
        "whoever deletes or changes these objects is to leave out namespaces with the label \
         mercato.dev/contract",
    )
}

/// Whether objects are written at a pace.
fn writes(shared: &Shared) -> Finding {
    const CHECK: &str = "writes";
    match held(&shared.cluster.held()) {
        Some(what) => Finding::warn(CHECK, what).todo(
            "kubectl get -w shows what changes: whoever changes it is to stop, or to be blocked",
        ),
        None => Finding::ok(CHECK, "no object changes too often"),
    }
}

/// What keeps guests from GPUs that they did not ask for, where there are any.
fn hidden_devices(shared: &Shared) -> Option<Finding> {
    let known = shared.bindings.borrow();
    let is_any = known.iter().flat_map(|all| all.values()).any(|binding| binding.hides_devices);
    let text = "guests see the GPUs that they ask for alone; for all pods of the cluster NVIDIA's \
                runtime does so with accept-nvidia-visible-devices-envvar-when-unprivileged = false, \
                or with CDI";
    is_any.then(|| Finding::ok("gpu access", text))
}

async fn account(cluster: &Cluster) -> Vec<Finding> {
    let missing = match rights::missing(cluster).await {
        Ok(missing) => missing,
        Err(failure) => return vec![Finding::fail(RIGHTS, format!("not known: {failure}"))],
    };
    if missing.is_empty() {
        return vec![Finding::ok(RIGHTS, "the account has all that it needs")];
    }
    let one = |missing: &rights::Missing| format!("{} (needed {})", missing.right, missing.purpose);
    vec![lacks(&missing.iter().map(one).collect::<Vec<_>>())]
}

/// One remedy mends all of them, so they are one finding, which names the first.
fn lacks(missing: &[String]) -> Finding {
    const NAMED: usize = 3;
    let first = &missing[..missing.len().min(NAMED)];
    let rest = match missing.len() - first.len() {
        0 => String::new(),
        rest => format!(", and {rest} more"),
    };
    let what = format!("the account may not {}{rest}", first.join(", "));
    let count = format!("{} rights are missing: {what}", missing.len());
    let what = if missing.len() == 1 { what } else { count };
    Finding::fail(RIGHTS, what)
        .todo("kubectl apply -f config/deploy/rbac.yaml")
        .todo("under another account than mercato:mercato: bind the roles of rbac.yaml to it")
}

/// Whether anything keeps the account from using its rights on what is not the daemon's.
async fn policies_of_account(cluster: &Cluster, user: &str) -> Finding {
    const CHECK: &str = "policies";
    match diagnose::missing_policies(cluster).await {
        Ok(missing) if missing.is_empty() => {
            Finding::ok(CHECK, "admission policies keep the account to what is the daemon's")
        }
        Ok(missing) => unkept(user, &missing.join(", ")),
        Err(failure) => Finding::warn(CHECK, format!("not known: {failure}")),
    }
}

/// That no policy keeps the account to what is the daemon's, which a person's account never is.
fn unkept(user: &str, missing: &str) -> Finding {
    let finding = |what: String| Finding::warn("policies", what);
    if user == ACCOUNT {
        let what = format!(
            "these admission policies do not hold for {user}: {missing}; whoever takes the daemon has \
             the cluster until then"
        );
        return finding(what).todo("kubectl apply -f config/deploy/");
    }
    let what = format!(
        "the daemon is {user} here, whom these admission policies do not keep to what is the \
         daemon's: {missing}. Whoever takes the daemon has all rights of {user}"
    );
    finding(what)
        .todo("nothing is to be done on a test bed, where it may be the administrator")
        .todo("elsewhere run it as mercato:mercato, or name its account in policies.yaml")
}

/// Whom the policies know as the daemon, as they are shipped.
const ACCOUNT: &str = "system:serviceaccount:mercato:mercato";

/// A node of others whose name the admission policies take for one of ours.
async fn node_names(cluster: &Cluster) -> Vec<Finding> {
    const CHECK: &str = "node names";
    match diagnose::nodes_called_like_ours(cluster).await {
        Ok(none) if none.is_empty() => {
            vec![Finding::ok(CHECK, "no other node is called as virtual ones are")]
        }
        Ok(some) => some
            .iter()
            .map(|name| Finding::fail(CHECK, called_like_ours(name)).todo(RENAME))
            .collect(),
        Err(failure) => vec![Finding::warn(CHECK, format!("not known: {failure}"))],
    }
}

/// Virtual nodes at the address of a real one.
async fn node_addresses(cluster: &Cluster) -> Vec<Finding> {
    const CHECK: &str = "node addresses";
    match diagnose::shared_addresses(cluster).await {
        Ok(shared) => addresses(CHECK, &shared),
        Err(failure) => vec![Finding::warn(CHECK, format!("not known: {failure}"))],
    }
}

/// All of them are of one daemon, and so at one address.
fn addresses(check: &str, shared: &[Shares]) -> Vec<Finding> {
    let Some(Shares { node, real, address, .. }) = shared.first() else {
        return vec![Finding::ok(check, "no virtual node has the address of another node")];
    };
    let others = match shared.len() - 1 {
        0 => "has".to_owned(),
        n => format!("and {n} more have"),
    };
    let what = format!(
        "{node} {others} the address {address} of node {real}: whoever looks for nodes by address \
         takes one for the other"
    );
    let scraped = Finding::ok(check, what).todo(SCRAPE);
    let ranges = shared.iter().filter_map(|it| Some((&it.node, it.range.as_ref()?)));
    let ranged = ranges.map(|(node, range)| {
        let what = format!(
            "{node} at the address of {real} has the range {range} for pods: an agent that knows \
             its node by the address, as kindnet does, may set up {real} by that range"
        );
        Finding::warn(check, what).todo(AGENT)
    });
    [scraped].into_iter().chain(ranged).collect()
}

/// What a job of Prometheus is to say that asks something else at the addresses of nodes.
const SCRAPE: &str = "in jobs of Prometheus that ask nodes by another port than the kubelet's: \
    {source_labels: [__meta_kubernetes_node_label_type], regex: virtual-kubelet, action: drop}";

/// What keeps it from that.
const AGENT: &str = "give this machine another address, and say kubernetes.address: ADDRESS";

/// What is wrong with a node of this name, which is not ours.
pub(super) fn called_like_ours(name: &str) -> String {
    format!(
        "node {name} is no virtual node and called like one: \
        whoever takes the daemon can end those of its pods that may leave home"
    )
}

/// What is to be done about it.
const RENAME: &str = "let it join under another name, without mercato- in front";

/// Whether an uninstallation has left the rights that it had.
async fn rights_of_uninstall(cluster: &Cluster) -> Finding {
    match diagnose::uninstalls(cluster).await {
        Ok(left) => uninstall(left),
        Err(failure) => Finding::warn("uninstall", format!("not known: {failure}"))
            .todo("kubectl apply -f config/deploy/rbac.yaml"),
    }
}

async fn custom_resources(cluster: &Cluster) -> Finding {
    const CHECK: &str = "resources";
    match crd::installed(cluster).await {
        Ok(true) => Finding::ok(CHECK, "the custom resources are installed"),
        Ok(false) => {
            Finding::warn(CHECK, "the custom resources are not installed: kubectl cannot trade")
                .todo("kubectl apply -f config/deploy/; the command line needs none")
        }
        Err(failure) => Finding::fail(CHECK, format!("not known: {failure}")),
    }
}

async fn time(cluster: &Cluster) -> Finding {
    match diagnose::clock_ahead_ms(cluster).await {
        Ok(ahead_ms) => clock("clock", "the API server's", ahead_ms),
        Err(failure) => Finding::warn("clock", format!("not compared: {failure}")),
    }
}

/// Those that a person has to approve.
fn certificates(shared: &Shared) -> Finding {
    const CHECK: &str = "certificates";
    let waiting = shared.waiting();
    if waiting.is_empty() {
        return Finding::ok(CHECK, "no virtual node waits for its serving certificate");
    }
    let finding = Finding::warn(CHECK, "virtual nodes wait: no kubectl logs or exec until then");
    waiting.iter().map(ToString::to_string).fold(finding, Finding::todo)
}

async fn daemon_sets(cluster: &Cluster, opted_in: &Known) -> Vec<Finding> {
    let all = match diagnose::daemon_sets(cluster).await {
        Ok(all) => all,
        Err(failure) => {
            return vec![
                Finding::warn(NODES, format!("not looked at: {failure}"))
                    .todo("kubectl apply -f config/deploy/rbac.yaml"),
            ];
        }
    };
    let mut findings = vec![policies(&all)];
    let landing: Vec<&DaemonSet> = all.iter().filter(|set| set.lands).collect();
    for set in &landing {
        let stay = |known: &Arc<OptedIn>| known.leave(&set.namespace).is_refused();
        let there = if opted_in.as_ref().is_none_or(stay) {
            "shown as running there, though nothing of them does; nothing is open to guests by that"
        } else {
            "run there, as the namespace is offloaded"
        };
        let (namespace, name) = (&set.namespace, &set.name);
        let what =
            format!("the pods of {namespace}/{name} are bound to virtual nodes, and {there}");
        findings.push(Finding::warn(NODES, what).todo(set.patch()));
    }
    if landing.is_empty() {
        findings.push(Finding::ok(NODES, "none would land on virtual nodes"));
    }
    findings
}

/// Pods that are bound to virtual nodes and stay at home.
async fn stranded(cluster: &Cluster, opted_in: &Known) -> Vec<Finding> {
    const CHECK: &str = "bound pods";
    let Some(opted_in) = opted_in else {
        return vec![Finding::warn(CHECK, "it is not known yet which namespaces are offloaded")];
    };
    match diagnose::stranded(cluster, opted_in).await {
        Ok(none) if none.is_empty() => {
            vec![Finding::ok(CHECK, "none is on a virtual node that nobody lets leave")]
        }
        Ok(some) => some.iter().map(|it| waits(CHECK, it)).collect(),
        Err(failure) => vec![Finding::warn(CHECK, format!("not looked at: {failure}"))],
    }
}

fn waits(check: &'static str, found: &Stranded) -> Finding {
    let Stranded { namespace, one, pods, answered_for, of_daemon_sets } = found;
    let what = format!(
        "{pods} of namespace {namespace}, {one} first, are bound to virtual nodes: the namespace may \
         not leave, and nothing of it is open to guests by that. {answered_for} of them are shown as \
         running, for their DaemonSets, and nothing of them does; the others wait"
    );
    let finding = Finding::warn(check, what);
    if *of_daemon_sets {
        return finding.todo("keep their DaemonSets off virtual nodes: see daemonsets");
    }
    let finding = finding.todo("delete them: somebody has set nodeName, or tolerates every taint");
    if is_reserved(namespace) {
        return finding;
    }
    finding.todo(format!("or let pods of the namespace leave: mercato offload {namespace}"))
}

/// By name alone: whether it is set to enforce them, only a test can show.
fn policies(all: &[DaemonSet]) -> Finding {
    const CHECK: &str = "network policy";
    match all.iter().find(|set| set.enforces()) {
        Some(set) => Finding::ok(CHECK, format!("{} is there, which enforces them", set.name)),
        None => Finding::warn(CHECK, "no plugin is seen that is known to enforce NetworkPolicy")
            .todo("if guests come here: make sure that they cannot reach your own pods"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;

    #[test]
    fn what_enforces_policies_is_known_by_name() {
        let set = |name: &str| DaemonSet {
            namespace: "kube-system".to_owned(),
            name: name.to_owned(),
            lands: false,
        };
        assert_eq!(policies(&[set("kube-proxy"), set("cilium")]).verdict, Verdict::Ok);
        assert_eq!(policies(&[set("kube-proxy")]).verdict, Verdict::Warn);
    }

    #[test]
    fn that_an_administrator_is_kept_by_no_policy_is_expected() {
        let admin = unkept("admin", "mercato-nodes");
        assert!(admin.what.starts_with("the daemon is admin here"), "{admin:?}");
        assert!(admin.todo[0].starts_with("nothing is to be done on a test bed"), "{admin:?}");
        let account = unkept(ACCOUNT, "mercato-nodes");
        assert_eq!(account.todo, ["kubectl apply -f config/deploy/"]);
        assert_eq!([admin.verdict, account.verdict], [Verdict::Warn; 2]);
    }

    #[test]
    fn rights_that_are_missing_are_one_finding_that_names_the_first() {
        let all: Vec<_> = (0..52).map(|n| format!("get things{n} (needed to see them)")).collect();
        let one = lacks(&all[..1]);
        assert_eq!(one.what, "the account may not get things0 (needed to see them)");
        let found = lacks(&all);
        assert!(
            found.what.starts_with("52 rights are missing: the account may not get "),
            "{found:?}"
        );
        assert!(found.what.ends_with("things2 (needed to see them), and 49 more"), "{found:?}");
        assert_eq!(
            (found.verdict, &*found.todo[0]),
            (Verdict::Fail, "kubectl apply -f config/deploy/rbac.yaml")
        );
    }

    #[test]
    fn whose_address_a_virtual_node_has_is_said_with_what_to_do() {
        assert_eq!(addresses("node addresses", &[])[0].verdict, Verdict::Ok);
        let shares = |node: &str, range: Option<&str>| Shares {
            node: node.to_owned(),
            real: "worker".to_owned(),
            address: "192.0.2.1".to_owned(),
            range: range.map(str::to_owned),
        };
        let found = addresses(
            "node addresses",
            &[shares("mercato-a", None), shares("mercato-b", Some("10.1.0.0/24"))],
        );
        let [scraped, ranged] = &found[..] else { panic!("{found:?}") };
        assert!(scraped.what.contains("192.0.2.1 of node worker"), "{scraped:?}");
        assert!(scraped.todo[0].contains("regex: virtual-kubelet"), "{scraped:?}");
        assert_eq!(ranged.verdict, Verdict::Warn);
        assert!(ranged.what.contains("mercato-b at the address of worker"), "{ranged:?}");
    }
}
