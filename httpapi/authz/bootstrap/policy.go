package bootstrap

import (
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/proa-project/proa/api"
)

// Sets of verbs.
const (
	read  = "get list watch"
	write = "create delete deletecollection patch update"
	every = "*"
)

// clusterRoles are the roles whose rules stand in themselves. Those of programs
// that Proa is itself (the controllers) are left out: nobody else takes their
// place.
func clusterRoles() map[string][]rbacv1.PolicyRule {
	return map[string][]rbacv1.PolicyRule{
		"cluster-admin": {rule(every, every, every), paths(every, every)},

		// For everybody.
		"system:basic-user": {
			rule("create", "authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews"),
			rule("create", "authentication.k8s.io", "selfsubjectreviews"),
		},
		"system:discovery":          {paths("get", "/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version /version/")},
		"system:public-info-viewer": {paths("get", "/healthz /livez /readyz /version /version/")},

		// For those who look after the cluster.
		"system:monitoring":                       {paths("get", "/healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/*")},
		"system:service-account-issuer-discovery": {paths("get", "/.well-known/openid-configuration /.well-known/openid-configuration/ /openid/v1/jwks /openid/v1/jwks/")},
		"system:auth-delegator": {
			rule("create", "authentication.k8s.io", "tokenreviews"),
			rule("create", "authorization.k8s.io", "subjectaccessreviews"),
		},
		"system:kubelet-api-admin": {
			rule(read, "core", "nodes"),
			rule("proxy", "core", "nodes"),
			rule(every, "core", "nodes/log nodes/metrics nodes/proxy nodes/stats"),
		},

		// For programs on nodes.
		"system:node":              nodeRules(),
		"system:node-bootstrapper": {rule("create get list watch", "certificates.k8s.io", "certificatesigningrequests")},
		"system:node-problem-detector": {
			rule("get", "core", "nodes"),
			rule("patch", "core", "nodes/status"),
			eventWriter(),
		},
		"system:node-proxier": {
			rule("list watch", "core", "endpoints services"),
			rule(read, "core", "nodes"),
			eventWriter(),
			rule("list watch", "discovery.k8s.io", "endpointslices"),
			rule("list watch", "networking.k8s.io", "servicecidrs"),
		},
		"system:kube-dns": {
			rule("list watch", "core", "endpoints services"),
			rule("list watch", "discovery.k8s.io", "endpointslices"),
		},

		// For schedulers and provisioners that a user adds.
		"system:kube-scheduler": schedulerRules(),
		"system:volume-scheduler": {
			rule("get list patch update watch", "core", "persistentvolumes"),
			rule(read, "storage.k8s.io", "storageclasses"),
			rule("get list patch update watch", "core", "persistentvolumeclaims"),
		},
		"system:persistent-volume-provisioner": {
			rule("create delete get list watch", "core", "persistentvolumes"),
			rule("get list update watch", "core", "persistentvolumeclaims"),
			rule(read, "storage.k8s.io", "storageclasses"),
			rule("watch", "core", "events"),
			eventWriter(),
		},
	}
}

func eventWriter() rbacv1.PolicyRule {
	return rule("create patch update", "core events.k8s.io", "events")
}

func nodeRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule("create", "authentication.k8s.io", "tokenreviews"),
		rule("create", "authorization.k8s.io", "localsubjectaccessreviews subjectaccessreviews"),
		rule(read, "core", "services"),
		rule("create get list watch", "core", "nodes"),
		rule("patch update", "core", "nodes nodes/status"),
		eventWriter(),
		rule(read+" create delete", "core", "pods"),
		rule("patch update", "core", "pods/status"),
		rule("create", "core", "pods/eviction"),
		rule(read, "core", "configmaps secrets"),
		rule("get", "core", "persistentvolumeclaims persistentvolumes"),
		rule("create", "core", "serviceaccounts/token"),
		rule("create delete get patch update", "coordination.k8s.io", "leases"),
		rule("create get list watch", "certificates.k8s.io", "certificatesigningrequests"),
	}
}

func schedulerRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		eventWriter(),
		rule("create", "coordination.k8s.io", "leases"),
		rule("get list update watch", "coordination.k8s.io", "leases", "kube-scheduler"),
		rule(read, "core", "nodes"),
		rule("delete get list watch", "core", "pods"),
		rule("create", "core", "bindings pods/binding"),
		rule("patch update", "core", "pods/status"),
		rule(read, "core", "replicationcontrollers services"),
		rule(read, "apps extensions", "replicasets"),
		rule(read, "apps", "statefulsets"),
		rule(read, "policy", "poddisruptionbudgets"),
		rule(read, "core", "persistentvolumeclaims persistentvolumes"),
		rule("create", "authentication.k8s.io", "tokenreviews"),
		rule("create", "authorization.k8s.io", "subjectaccessreviews"),
		rule(read, "storage.k8s.io", "csidrivers csinodes csistoragecapacities storageclasses volumeattachments"),
		rule(read, "core", "namespaces"),
	}
}

// viewRules are for reading what is in a namespace, but for Secrets, by which
// more could be had, and roles.
func viewRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule(read, "core", "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods replicationcontrollers replicationcontrollers/scale serviceaccounts services services/status"),
		rule(read, "core", "bindings events limitranges namespaces/status pods/log pods/status replicationcontrollers/status resourcequotas resourcequotas/status"),
		rule(read, "core", "namespaces"),
		rule(read, "discovery.k8s.io", "endpointslices"),
		rule(read, "apps", "controllerrevisions daemonsets daemonsets/status deployments deployments/scale deployments/status replicasets replicasets/scale replicasets/status statefulsets statefulsets/scale statefulsets/status"),
		rule(read, "autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status"),
		rule(read, "batch", "cronjobs cronjobs/status jobs jobs/status"),
		rule(read, "extensions", "daemonsets daemonsets/status deployments deployments/scale deployments/status ingresses ingresses/status networkpolicies replicasets replicasets/scale replicasets/status replicationcontrollers/scale"),
		rule(read, "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
		rule(read, "networking.k8s.io", "ingresses ingresses/status networkpolicies"),
		rule(read, "resource.k8s.io", "resourceclaims resourceclaims/status resourceclaimtemplates"),
	}
}

// editRules are for changing what is in a namespace, but for roles and quotas.
func editRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule(read, "core", "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy"),
		rule("impersonate", "core", "serviceaccounts"),
		rule(write, "core", "pods pods/attach pods/exec pods/portforward pods/proxy"),
		rule("create", "core", "pods/eviction"),
		rule(write, "core", "configmaps events persistentvolumeclaims replicationcontrollers replicationcontrollers/scale secrets serviceaccounts services services/proxy"),
		rule("create", "core", "serviceaccounts/token"),
		rule(write, "apps", "daemonsets deployments deployments/rollback deployments/scale replicasets replicasets/scale statefulsets statefulsets/scale"),
		rule(write, "autoscaling", "horizontalpodautoscalers"),
		rule(write, "batch", "cronjobs jobs"),
		rule(write, "extensions", "daemonsets deployments deployments/rollback deployments/scale ingresses networkpolicies replicasets replicasets/scale replicationcontrollers/scale"),
		rule(write, "policy", "poddisruptionbudgets"),
		rule(write, "networking.k8s.io", "ingresses networkpolicies"),
		rule(write+" "+read, "coordination.k8s.io", "leases"),
		rule(write, "resource.k8s.io", "resourceclaims resourceclaimtemplates"),
	}
}

// adminRules are for giving others rights in a namespace.
func adminRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule("create", "authorization.k8s.io", "localsubjectaccessreviews"),
		rule(write+" "+read, rbacv1.GroupName, "rolebindings roles"),
	}
}

// bindings says who has which role; a binding is named as its role is. Nobody
// has system:node: what nodes may do hangs on their pods, see authz.Nodes.
func bindings() map[string][]rbacv1.Subject {
	return map[string][]rbacv1.Subject{
		"cluster-admin":             groups("system:masters"),
		"system:basic-user":         groups("system:authenticated"),
		"system:discovery":          groups("system:authenticated"),
		"system:public-info-viewer": groups("system:authenticated", "system:unauthenticated"),
		"system:monitoring":         groups("system:monitoring"),
		"system:node":               nil,
		"system:node-proxier":       users("system:kube-proxy"),
		"system:kube-scheduler":     users("system:kube-scheduler"),
		"system:volume-scheduler":   users("system:kube-scheduler"),

		"system:service-account-issuer-discovery": groups("system:serviceaccounts"),
		"system:kube-dns":                         {{Kind: rbacv1.ServiceAccountKind, Namespace: "kube-system", Name: "kube-dns"}},
	}
}

// readerOfRequestHeaders is the role in kube-system by which an aggregated API
// server reads how it knows the users that it is told of.
func readerOfRequestHeaders() []api.Object {
	const role, name = "extension-apiserver-authentication-reader", "extension-apiserver-authentication"
	return []api.Object{
		&rbacv1.Role{ObjectMeta: meta("kube-system", role), Rules: []rbacv1.PolicyRule{rule(read, "core", "configmaps", name)}},
		&rbacv1.RoleBinding{
			ObjectMeta: meta("kube-system", "system::"+role), Subjects: users("system:kube-controller-manager", "system:kube-scheduler"),
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
		},
	}
}
