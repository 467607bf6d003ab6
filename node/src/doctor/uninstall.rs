//! What an uninstallation that was interrupted has left: an account with more rights than the daemon's.

use super::Finding;

/// What is to be thought of the binding of the account by which `helm uninstall` removes all, if that
/// is there.
pub(crate) fn uninstall(is_there: bool) -> Finding {
    const CHECK: &str = "uninstall";
    if !is_there {
        return Finding::ok(CHECK, "no account of an uninstallation has rights");
    }
    let what = "the account mercato-uninstall may delete any node, namespace and pod: helm uninstall \
                runs, or was interrupted";
    Finding::warn(CHECK, what)
        .todo("see whether one runs: kubectl -n mercato get job mercato-uninstall")
        .todo("kubectl delete clusterrolebinding mercato-uninstall")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;

    #[test]
    fn what_was_left_is_named_with_the_command_that_removes_it() {
        assert_eq!(uninstall(false).verdict, Verdict::Ok);
        let left = uninstall(true);
        assert_eq!(left.verdict, Verdict::Warn);
        let removes = "kubectl delete clusterrolebinding mercato-uninstall";
        assert!(left.todo.iter().any(|line| line == removes), "{left:?}");
    }
}
