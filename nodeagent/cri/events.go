package cri

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Events calls changed with the UID of each pod of which a sandbox or container
// is created, started, stopped or removed, and when that was, until ctx ends or the stream breaks;
// it always returns an error. A runtime may repeat old events at first. Without
// events (CRI-O and containerd before 1.7) the error wraps ErrUnsupported.
//
// ready is called when the runtime was asked for the stream. What changes
// before it has taken notice, a moment later, is not reported: the caller asks
// for everything once then, and again now and then.
func (r *Runtime) Events(ctx context.Context, ready func(), changed func(types.UID, time.Time)) error {
	stream, err := r.rt.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{})
	if err != nil {
		return wrap("follow container events", err)
	}
	ready()
	for {
		e, err := stream.Recv()
		if err != nil {
			return wrap("follow container events", err)
		}
		if uid := e.GetPodSandboxStatus().GetMetadata().GetUid(); uid != "" {
			changed(types.UID(uid), time.Unix(0, e.CreatedAt))
		}
	}
}
