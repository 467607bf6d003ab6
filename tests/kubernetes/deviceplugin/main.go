// Command deviceplugin is a driver of devices that are not there: it registers a
// resource with the kubelet of one node and hands out ids, which a container finds
// in variables, as with the plugins of vendors.
package main

import (
	"context"
	"flag"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	plugin "k8s.io/kubernetes/pkg/kubelet/cm/devicemanager/plugin/v1beta1"
)

func main() {
	socket := flag.String("socket", "", "where the kubelet finds it: a file in its folder plugins_registry")
	resource := flag.String("resource", "", "what pods ask for, such as nvidia.com/gpu")
	ids := flag.String("ids", "", "the devices, by commas")
	variable := flag.String("variable", "NVIDIA_VISIBLE_DEVICES", "in which a container finds its own")
	flag.Parse()
	logger := klog.Background()
	ctx, stop := signal.NotifyContext(klog.NewContext(context.Background(), logger),
		syscall.SIGINT, syscall.SIGTERM)
	defer stop()

	var devices []*pluginapi.Device
	for _, id := range strings.Split(*ids, ",") {
		devices = append(devices, &pluginapi.Device{ID: id, Health: pluginapi.Healthy})
	}
	// The kubelet looks through that folder by itself, so that nothing is registered
	// at the one place that all kubelets of a machine share.
	stub := plugin.NewDevicePluginStub(logger, devices, *socket, *resource, false, false)
	stub.SetAllocFunc(func(asked *pluginapi.AllocateRequest, _ map[string]*pluginapi.Device) (*pluginapi.AllocateResponse, error) {
		answer := &pluginapi.AllocateResponse{}
		for _, container := range asked.ContainerRequests {
			given := strings.Join(container.DevicesIds, ",")
			answer.ContainerResponses = append(answer.ContainerResponses, &pluginapi.ContainerAllocateResponse{
				Envs: map[string]string{*variable: given, "DEVICE_IDS": given},
			})
		}
		return answer, nil
	})
	if err := stub.Start(ctx); err != nil {
		logger.Error(err, "the plugin does not start")
		os.Exit(1)
	}
	<-ctx.Done()
	if err := stub.Stop(logger); err != nil {
		logger.Error(err, "the plugin does not end")
	}
}
