// Command kubernetes is every program of a Kubernetes cluster in one
// executable, which picks its part by the name it is called under (or by its
// first argument). One executable shares one copy of the Kubernetes libraries,
// so it builds in minutes and takes a fraction of the disk of its parts.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// commands are the Kubernetes programs that are one cobra command each.
var commands = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllermanager.NewControllerManagerCommand,
	"kube-proxy":              proxy.NewProxyCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kubectl":                 kubectl.NewDefaultKubectlCommand,
	"kubelet":                 func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
}

// programs are the others, which read os.Args by themselves.
var programs = map[string]func(){
	"coredns": runCoreDNS,
	"etcd":    func() { etcdmain.Main(os.Args) },
}

func main() {
	name := filepath.Base(os.Args[0])
	if name == "kubernetes" && len(os.Args) > 1 {
		name = os.Args[1]
		os.Args = os.Args[1:]
	}
	if run, ok := programs[name]; ok {
		run()
		return
	}
	if command, ok := commands[name]; ok {
		os.Exit(cli.Run(command()))
	}
	fmt.Fprintf(os.Stderr, "kubernetes: no program %q in here; there are %s\n", name, names())
	os.Exit(2)
}

func names() string {
	var all []string
	for name := range commands {
		all = append(all, name)
	}
	for name := range programs {
		all = append(all, name)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}
