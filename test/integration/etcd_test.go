package integration_test

import (
	"net/url"
	"testing"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/proa-project/proa/cmd/proa/controlplane"
)

// A member is an etcd that listens on loopback, as one elsewhere would.
type member struct {
	dir    string
	url    url.URL
	quota  int64
	server *embed.Etcd
}

func newMember(t testing.TB, quota int64) *member {
	t.Helper()
	m := &member{dir: t.TempDir(), url: url.URL{Scheme: "http", Host: freeAddress(t)}, quota: quota}
	m.start(t)
	t.Cleanup(m.stop)
	return m
}

func (m *member) start(t testing.TB) {
	t.Helper()
	c := embed.NewConfig()
	c.Name, c.Dir, c.QuotaBackendBytes = "elsewhere", m.dir, m.quota
	c.ListenPeerUrls = nil
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{m.url}, []url.URL{m.url}
	c.InitialCluster = c.Name + "=" + c.AdvertisePeerUrls[0].String()
	c.TickMs, c.ElectionMs = 20, 200
	c.UnsafeNoFsync = true
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	var err error
	if m.server, err = embed.StartEtcd(c); err != nil {
		t.Fatal(err)
	}
	<-m.server.Server.ReadyNotify()
}

func (m *member) stop() {
	if m.server != nil {
		m.server.Close()
		m.server = nil
	}
}

func (m *member) etcd() controlplane.Etcd {
	return controlplane.Etcd{Endpoints: []string{m.url.String()}}
}
