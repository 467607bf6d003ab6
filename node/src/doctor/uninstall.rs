//! What an uninstallation that was interrupted has left: an account with more rights than the daemon's.

use mercato_kubelet::diagnose::UninstallRights;

use super::Finding;

/// What is to be thought of the rights that the account still has by which `helm uninstall` removes all.
pub(crate) fn uninstall(left: UninstallRights) -> Finding {
    const CHECK: &str = "uninstall";
    let may = match (left.removes, left.connects) {
        (false, false) => return Finding::ok(CHECK, "no account of an uninstallation has rights"),
        (true, false) => "delete any node, namespace and pod",
        (false, true) => "forward ports of the daemon's pod",
        (true, true) => "delete any node, namespace and pod, and forward ports of the daemon's pod",
    };
    let what =
        format!("the account mercato-uninstall may {may}: helm uninstall runs, or was interrupted");
    let mut finding = Finding::warn(CHECK, what)
        .todo("see whether one runs: kubectl -n mercato get job mercato-uninstall");
    if left.removes {
        finding = finding.todo("kubectl delete clusterrolebinding mercato-uninstall");
    }
    if left.connects {
        finding = finding.todo("kubectl -n mercato delete rolebinding mercato-uninstall");
    }
    finding
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;

    #[test]
    fn each_binding_that_was_left_is_named_with_the_command_that_removes_it() {
        assert_eq!(uninstall(UninstallRights::default()).verdict, Verdict::Ok);
        let commands = [
            "kubectl delete clusterrolebinding mercato-uninstall",
            "kubectl -n mercato delete rolebinding mercato-uninstall",
        ];
        for left in [[true, false], [false, true], [true, true]] {
            let [removes, connects] = left;
            let finding = uninstall(UninstallRights { removes, connects });
            assert_eq!(finding.verdict, Verdict::Warn);
            let is_named = |command| finding.todo.iter().any(|line| line == command);
            assert_eq!(commands.map(is_named), left, "{finding:?}");
        }
    }
}
