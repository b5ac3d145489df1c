# Versions of tools stand here and nowhere else.
GOLANGCI_LINT_VERSION = v2.15.0
GOVULNCHECK_VERSION   = v1.8.0
HELM_VERSION          = v4.3.1
ACTIONLINT_VERSION    = v1.7.12
VALE_VERSION          = v3.21.0
CRANE_VERSION         = v0.22.1
COSIGN_VERSION        = v3.1.3
KIND_VERSION          = v0.33.0
GOTESTSUM_VERSION     = v1.13.0

BIN      = $(CURDIR)/.bin
HELM     = $(BIN)/helm-$(HELM_VERSION)
CRANE    = $(BIN)/crane-$(CRANE_VERSION)
COSIGN   = $(BIN)/cosign-$(COSIGN_VERSION)
KIND     = $(BIN)/kind-$(KIND_VERSION)
GOTESTSUM = $(BIN)/gotestsum-$(GOTESTSUM_VERSION)
GOTEST   = GOTESTSUM=$(GOTESTSUM) $(CURDIR)/.ci/secondruns $(CURDIR)/.ci/gotest
CERTMANAGER = $(BIN)/cert-manager
PLUGINS  = $(BIN)
DEMO     = $(CURDIR)/.demo
UNIT     = $(shell go list ./... | grep -v /test/)
RACED    = $(shell grep -rlE --include='*.go' --exclude='*_test.go' '"sync(/atomic)?"|\<chan |^\s*go |\.Go\>' . | xargs -n1 dirname | sort -u | sed 's,^\.,nodekeep.dev/nodekeep,')
LONGEST  = $(addprefix nodekeep.dev/nodekeep/test/,faults integration cli rules) # started first
CLUSTER  = $(LONGEST) $(filter-out $(LONGEST),$(shell go list ./test/... | grep -vE '/(integration/(chart|image|monitoring|controllers)|release|report)$$'))
AT_ONCE  = 4
FUZZINPUTS = 4000
FUZZERS  = .
SOAK     = 30m
MODEL    =
SIGNER   =
NODES    = 100000
MANIFEST = manifests/nodekeep.yaml
AT       = oldest newest

# What is built: the version is the chart's appVersion. Images are dated with their commit, so that they can be built again.
VERSION           = $(shell sed -n 's/^appVersion: *//p' manifests/chart/Chart.yaml)
COMMIT            = $(shell git rev-parse HEAD 2>/dev/null)$(if $(shell git status --porcelain 2>/dev/null),-dirty)
SOURCE_DATE_EPOCH = $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
STAMP             = -X main.version=$(VERSION) -X main.commit=$(COMMIT)
IMAGE             = nodekeep
IMAGE_DIR         = $(CURDIR)/.image
REGISTRY          = $(patsubst %/,%,$(dir $(IMAGE)))
CHARTS            = $(REGISTRY)/charts
VERSIONS          = $(CURDIR)/.versions
PLATFORMS         = linux/amd64 linux/arm64
RELEASE_DIR       = $(CURDIR)/.release
PROJECT_URL       = https://example.com/nodekeep
RELEASE_URL       = $(PROJECT_URL)/releases/download/$(VERSION)
CLI               = linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64

# Tests that take long and have one goroutine: nothing for the race detector.
ONE_GOROUTINE = Simulation|MachinesThatChangeTheirName|ARenameOfManyNodes|AnswersHoldForManyNodes|AHostilePolicyIsBounded|NodeTooLarge|StampNeedsRoom|ListOfDerivedTaintsNeedRoom|TakesNoMemoryInACache|PackedRecordsTakeLittleMemory|GivesWayBeforeARecord|HistoriesGiveWay

# The tests that hold the imports to the table of the design, and the pure files to their lists.
ARROWS = PackagesImportWhatTheTable|ListsOfPureFilesAgree

# The tests that judge the lines of pages and the words of texts for users.
PROSE = NoLineOfThePages|TextsForUsersUseTheWords

# The tests that ask for NODEKEEP_LONG_FAULTS, or do more with it.
LONG_FAULTS = NeverAnswered|AThousandLiveNodes|TwoHundredLiveNodes|RecordsStall|AnHourOff|BringNothing|ReadRecordsAgain|AnotherAdmissionPolicySets|KilledAtAnyWriteOfARemoval|AFloodOfForgedReviewsChanges|StandingAttackersChange

.PHONY: help
help: ## what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

# The tests that test-versions runs. GATE_POLICY: where the API server serves MutatingAdmissionPolicy v1.
ESSENTIALS  = ThisKubernetes|AreInTheVeryObject|ProtectedLabelsFollow|GateOfTheKubelet|RegistersGatedByItsKubelet|RemovedFromALiveNode|TheHistoryShows|ThePolicyIsFollowed|ServiceAccountsMayDoNothingElse|EveryAttemptHasTheOutcome|ForbiddenValueRegisters|NoWorkloadIsBoundBefore|FailedCheckIsReported|TaintAddedAgain
GATE_POLICY = WithTheWebhookDownEveryNodeIsGated|TheOffSwitchStopsGating|PoliciesFromFilesGateAndGuard
# And of those with real kubelets.
REAL = GetsBackWhatItsNodeHad|TheEndToEndSuite

.PHONY: build
build: ## the nodekeep binary, in .bin
	CGO_ENABLED=0 go build -ldflags "$(STAMP)" -o $(BIN)/nodekeep ./cmd/nodekeep

.PHONY: image
image: $(PLATFORMS:%=$(IMAGE_DIR)/binaries/%/nodekeep) ## the container image for PLATFORMS, without a container engine, in IMAGE_DIR
	@cd cmd/image && go run . -binaries $(IMAGE_DIR)/binaries -platforms "$(PLATFORMS)" -out $(IMAGE_DIR) -repository $(IMAGE) \
		-version $(VERSION) -commit "$(COMMIT)" -time $(SOURCE_DATE_EPOCH)

.PHONY: sbom
sbom: $(PLATFORMS:%=$(IMAGE_DIR)/binaries/%/nodekeep) ## what is in it: a bill of materials (CycloneDX) for each platform, in IMAGE_DIR
	@cd cmd/image && for platform in $(PLATFORMS); do \
		go tool cyclonedx-gomod bin -json -std -noserial -notimestamp -version $(VERSION) \
			-output $(IMAGE_DIR)/nodekeep-$${platform%/*}-$${platform#*/}.cdx.json $(IMAGE_DIR)/binaries/$$platform/nodekeep || exit; \
	done

PUSH = CRANE=$(CRANE) HELM=$(HELM) VERSION=$(VERSION) SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH) IMAGE=$(IMAGE) CHARTS=$(CHARTS) .ci/push

.PHONY: push
push: package $(CRANE) ## the image to IMAGE, say registry.example.com/nodekeep, and the chart to CHARTS (registry.example.com/charts), with the version as tag
	@$(PUSH) $(IMAGE_DIR)/oci $(IMAGE_DIR)/nodekeep-$(VERSION:v%=%).tgz

.PHONY: publish
publish: $(CRANE) $(HELM) ## as push, but what release has made, without another build
	@$(PUSH) $(RELEASE_DIR)/nodekeep-image-oci.tar $(RELEASE_DIR)/nodekeep-$(VERSION:v%=%).tgz

.PHONY: package
package: image $(HELM) ## the chart as one file, for the image IMAGE, in IMAGE_DIR
	@HELM=$(HELM) VERSION=$(VERSION) SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH) IMAGE=$(IMAGE) PROJECT=$(PROJECT_URL) FROM=$(IMAGE_DIR) TO=$(IMAGE_DIR) .ci/chart

.PHONY: release
release: image docs $(HELM) ## what a release holds, in RELEASE_DIR, for the image IMAGE; PROJECT_URL is where its source is, RELEASE_URL where its files will be downloaded from
	@$(MAKE) --no-print-directory sbom PLATFORMS="$(CLI)"
	@HELM=$(HELM) VERSION=$(VERSION) SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH) IMAGE=$(IMAGE) CHARTS=$(CHARTS) REGISTRY=$(REGISTRY) FROM=$(IMAGE_DIR) \
		TO=$(RELEASE_DIR) PLATFORMS="$(CLI)" PROJECT=$(PROJECT_URL) URL=$(RELEASE_URL) .ci/release

.PHONY: sign
sign: $(CRANE) $(COSIGN) ## what release and publish have made, by the identity of the workflow, or by SIGNER: arguments of cosign
	@COSIGN=$(COSIGN) CRANE=$(CRANE) VERSION=$(VERSION) IMAGE=$(IMAGE) CHART=$(CHARTS)/nodekeep RELEASE=$(RELEASE_DIR) SIGNER="$(SIGNER)" .ci/sign

.PHONY: verify
verify: $(CRANE) $(COSIGN) ## a release that was signed, by the commands of SECURITY.md
	@COSIGN=$(COSIGN) CRANE=$(CRANE) VERSION=$(VERSION) REGISTRY=$(REGISTRY) PROJECT=$(PROJECT_URL) RELEASE=$(RELEASE_DIR) SIGNER="$(SIGNER)" .ci/verify

.PHONY: test-release
test-release: controlplane $(HELM) $(CRANE) $(COSIGN) $(GOTESTSUM) ## two builds of a release are the same; one is pushed, signed, verified, installed, upgraded, uninstalled
	CGO_ENABLED=0 $(GOTEST) ./test/release -count=1 -timeout 60m

.PHONY: version
version: ## which version this is
	@echo $(VERSION)

.PHONY: docker-image
docker-image: ## the same image with Docker, for its platform, and a look at whether it runs read-only
	SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH) docker build --build-arg GO_VERSION=$(patsubst go%,%,$(shell go env GOVERSION)) \
		--build-arg VERSION=$(VERSION) --build-arg COMMIT=$(COMMIT) -t $(IMAGE):$(VERSION) .
	docker run --rm --read-only --cap-drop=ALL --network=none $(IMAGE):$(VERSION) version

.PHONY: plugin
plugin: build ## `kubectl nodekeep`, and its completion: links to the binary in PLUGINS (.bin), which must be in PATH
	ln -sf nodekeep $(PLUGINS)/kubectl-nodekeep
	ln -sf nodekeep $(PLUGINS)/kubectl_complete-nodekeep

.PHONY: docs
docs: ## cli.md in IMAGE_DIR: the help of all commands on one page, which a release has
	@mkdir -p $(IMAGE_DIR)
	@CGO_ENABLED=0 go test -count=1 -vet=off ./cmd/nodekeep -run TestThePageOfTheCommands -args -docs $(IMAGE_DIR)/cli.md

.PHONY: controlplane
controlplane: ## etcd, kube-apiserver and friends for tests (some ten minutes the first time)
	@test/programs/controlplane/build.sh

.PHONY: demo-controlplane
demo-controlplane: # what the demo runs, without the scheduler, controller manager and kubelet of the tests
	@test/programs/controlplane/build.sh controlplane etcd kube-apiserver kubectl

.PHONY: demo
demo: demo-controlplane $(BIN)/demo ## a Node loses its labels and gets them back, on a real control plane, in under a minute
	@$(BIN)/demo run

.PHONY: recording
recording: demo-controlplane $(BIN)/demo ## docs/images/demo.svg, from what `make demo` prints
	@$(BIN)/demo record docs/images/demo.svg

.PHONY: up
up: demo-controlplane $(BIN)/demo ## start a control plane with nodekeep on it and leave it running
	@$(BIN)/demo up --dir $(DEMO)

.PHONY: down
down: $(BIN)/demo ## stop what `make up` started
	@$(BIN)/demo down --dir $(DEMO)

.PHONY: test
test: controlplane $(HELM) ## everything on a real API server, but the chart, the image and monitoring
	@.ci/secondruns .ci/times sh -c '$(MAKE) --no-print-directory -j2 test-cluster test-pure && $(MAKE) --no-print-directory skipped' # the first one mostly waits

.PHONY: test-cluster
test-cluster: $(GOTESTSUM) # AT_ONCE packages side by side, each with a control plane of its own; one nodekeep, linked once; make lint runs vet
	CGO_ENABLED=0 go build -ldflags "-s -w" -o $(BIN)/nodekeep-tested ./cmd/nodekeep
	NODEKEEP_TESTS_BINARY=$(BIN)/nodekeep-tested CGO_ENABLED=0 $(GOTEST) '$(CLUSTER)' -vet=off -p $(AT_ONCE) -count=1 -timeout 45m

.PHONY: test-pure
test-pure: unit
	cd cmd/image && $(GOTEST) ./...
	cd test/e2e/machine && $(GOTEST) ./...

.PHONY: test-chart
test-chart: controlplane tools $(GOTESTSUM) ## the chart with Helm and with cert-manager, and the image
	CGO_ENABLED=0 $(GOTEST) './test/integration/chart ./test/integration/image' -p $(AT_ONCE) -count=1 -timeout 30m

.PHONY: test-monitoring
test-monitoring: controlplane promtool $(HELM) $(GOTESTSUM) ## alerts, dashboard and metrics, with promtool
	CGO_ENABLED=0 $(GOTEST) ./test/integration/monitoring -count=1 -timeout 30m

.PHONY: test-recipes
test-recipes: controlplane $(GOTESTSUM) ## the recipes of docs/platforms.md with Karpenter and Kueue, which are built first
	CGO_ENABLED=0 $(GOTEST) ./test/integration/controllers -count=1 -timeout 45m

.PHONY: test-versions
test-versions: $(AT:%=test-version-%) ## the essentials on the oldest supported Kubernetes and on the newest (AT), built first (10 minutes each)

.PHONY: test-version-oldest test-version-newest
test-version-oldest: KUBERNETES = 1.30
test-version-newest: KUBERNETES = 1.37
test-version-newest: ESSENTIALS := $(ESSENTIALS)|$(GATE_POLICY)
test-version-oldest test-version-newest: test-version-%: containerd $(HELM) $(GOTESTSUM)
	@test/programs/controlplane/build.sh controlplane-$*
	@mkdir -p $(VERSIONS)/$* && manifests/render.sh $(HELM) $(VERSIONS)/$* $(KUBERNETES)
	KUBEBUILDER_ASSETS=$(CURDIR)/test/programs/controlplane-$*/bin NODEKEEP_MANIFESTS=$(VERSIONS)/$* CGO_ENABLED=0 \
		$(GOTEST) '$(addprefix ./test/integration,/ /governance /verification /versions)' -p 1 -count=1 -timeout 30m -run '$(ESSENTIALS)'
	KUBEBUILDER_ASSETS=$(CURDIR)/test/programs/controlplane-$*/bin NODEKEEP_E2E_LOCAL=1 $(GOTEST) ./test/e2e/local -count=1 -timeout 30m -run '$(REAL)'

.PHONY: test-report
test-report: controlplane chromium $(GOTESTSUM) ## the report of 1,000 Nodes: its counts, and its page in Chromium
	CGO_ENABLED=0 $(GOTEST) ./test/report -count=1 -timeout 30m -v

.PHONY: report-screenshot
report-screenshot: controlplane chromium ## docs/images/report-*.png, anew, of a cluster of 1,000 Nodes
	go test -count=1 -timeout 30m -run Page ./test/report -args -screenshots

.PHONY: chromium
chromium: ## a Chromium without a display, for test-report: found, or installed with apt-get by root
	@test/programs/chromium/install.sh

.PHONY: containerd
containerd: ## containerd, runc and CNI plugins, for real kubelets: found, or installed with apt-get by root
	@test/programs/containerd/install.sh

.PHONY: model
model: ## every interleaving of clients, webhook and captures up to a bound, against the rule of package record (about a minute)
	CGO_ENABLED=0 go run ./test/simulation $(MODEL)

.PHONY: skipped
skipped: ## why tests may skip; go test shows that with -v only
	@grep -rnoE --include='*.go' 't\.Skipf?\(.*' . | sed -E 's,^\./(.*):[0-9]+:t\.Skipf?\((.*)\)$$,may skip: \1: \2,'

# GOGC: they allocate much and keep little; it saves more than a quarter of the CPU.
.PHONY: unit
unit: export GOGC = 400
unit: $(GOTESTSUM) ## what needs no control plane
	$(GOTEST) '$(filter $(RACED),$(UNIT))' -race -timeout 30m -skip '$(ONE_GOROUTINE)' # those with goroutines; the race detector takes five times the CPU
	CGO_ENABLED=0 $(GOTEST) '$(filter-out $(RACED),$(UNIT))' -vet=off -timeout 30m
	NODEKEEP_SIMULATION_SCENARIOS=5000 NODEKEEP_RENAMED_NODES=200 CGO_ENABLED=0 $(GOTEST) './capture ./store ./webhook' -vet=off -timeout 30m -run '$(ONE_GOROUTINE)'
	@echo "left out: $(filter-out $(UNIT),$(shell go list ./...))"
	@echo "          they need a control plane; make test builds one and runs everything"

.PHONY: fuzz
fuzz: ## every fuzzer, with FUZZINPUTS (4000) inputs each; FUZZERS=REGEXP for some of them
	@.ci/fuzz $(FUZZINPUTS) '$(FUZZERS)'

.PHONY: test-faults
test-faults: controlplane $(HELM) $(GOTESTSUM) ## the faults that take minutes to show
	NODEKEEP_LONG_FAULTS=1 CGO_ENABLED=0 $(GOTEST) './test/faults ./test/integration/removal ./test/attack' -count=1 -timeout 30m -v -p 2 -run '$(LONG_FAULTS)'

.PHONY: test-large
test-large: controlplane ## Nodes under rules, and the simulations, at full size and with new seeds (an hour)
	NODEKEEP_NODES=300 NODEKEEP_ROUNDS=20 CGO_ENABLED=0 go test -count=1 -timeout 60m -v ./test/rules
	NODEKEEP_SIMULATION_FIRST=$$(( $$(date +%s) * 1000 )) NODEKEEP_SIMULATION_SCENARIOS=100000 CGO_ENABLED=0 \
		go test -count=1 -timeout 120m -v -run '^TestSimulation$$|^TestSimulationOfThePlan$$' ./capture ./verify

.PHONY: e2e
e2e: $(HELM) ## the end-to-end suite on the cluster that KUBECONFIG names, with NODEKEEP_E2E_IMAGE; go doc ./test/e2e lists the settings
	go test -tags e2e -count=1 -v -timeout 60m ./test/e2e

.PHONY: e2e-local
e2e-local: controlplane containerd $(HELM) $(CRANE) ## the same suite here, on real kubelets; needs root and Linux, no container engine
	NODEKEEP_E2E_LOCAL=1 go test -count=1 -v -timeout 30m ./test/e2e/local

.PHONY: kind
kind: $(HELM) $(KIND) ## the same suite on a cluster of three nodes that kind makes for it, of one with ROLES=control-plane; needs Docker. KEEP=1 leaves it
	@test/e2e/kind.sh $(KIND)

.PHONY: vulncheck
vulncheck: ## known vulnerabilities in what is used; asks the public database
	go run golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION) ./...

.PHONY: soak
soak: controlplane ## random faults for SOAK (30m), checked after each round against an independent model
	NODEKEEP_SOAK=$(SOAK) CGO_ENABLED=0 go test -count=1 -v -timeout 0 -run '^TestALongTimeOfRandomFaults$$' ./test/differential

.PHONY: bench
bench: controlplane ## the handler, then CREATEs on a real API server, each compared with one that does nothing (some minutes)
	go test -run '^$$' -bench . -benchmem ./webhook ./policy
	go run ./test/bench create
	go run ./test/bench growth -nodes 10000

.PHONY: bench-scale
bench-scale: controlplane ## NODES Nodes (100000: some 20 GiB of memory, half an hour): growth, memory, capture, storm, start
	GOMEMLIMIT=14GiB go run ./test/bench scale -nodes $(NODES) # keeps kube-apiserver within 24 GiB; nodekeep is far below it

.PHONY: promtool
promtool: test/programs/promql/bin/promtool ## promtool, and what takes expressions apart, in test/programs/promql/bin (about 3 minutes the first time)

.PHONY: tools
tools: $(HELM) $(CERTMANAGER) ## the pinned Helm and cert-manager, in .bin

.PHONY: manifests
manifests: $(HELM) ## the kind NodePolicy with its schemas, from the types of the policy, and the static files of manifests/, from the chart
	@go run ./cmd/generate
	@manifests/render.sh $(HELM) manifests

.PHONY: manifests-check
manifests-check: $(HELM) ## whether they are what the types and the chart say
	@go run ./cmd/generate -check
	@manifests/render.sh $(HELM) --check

.PHONY: uninstall
uninstall: build ## take nodekeep off the cluster that kubectl points at, gates first; the records stay
	$(BIN)/nodekeep uninstall
	kubectl delete --ignore-not-found -f $(MANIFEST)
	@echo "the records stay; to delete them: kubectl delete namespace nodekeep-system"

.PHONY: lint
lint: $(BIN)/golangci-lint-$(GOLANGCI_LINT_VERSION) ## style, and the arrows of the design
	$< run ./...
	cd cmd/image && $< run ./...
	cd test/programs/promql && $< run ./...
	cd test/programs/clusterapi && $< run ./...
	cd test/programs/kind && $< run ./...
	cd test/programs/kueue && $< run ./...
	cd test/e2e/machine && $< run ./...
	go run github.com/rhysd/actionlint/cmd/actionlint@$(ACTIONLINT_VERSION)
	go mod tidy -diff
	cd test/programs/controlplane && go mod tidy -diff
	cd test/programs/controlplane-oldest && go mod tidy -diff
	cd test/programs/controlplane-newest && go mod tidy -diff
	cd cmd/image && go mod tidy -diff
	cd test/programs/certmanager && go mod tidy -diff
	cd test/programs/clusterapi && go mod tidy -diff
	cd test/programs/kind && go mod tidy -diff
	cd test/programs/karpenter && go mod tidy -diff
	cd test/programs/kueue && go mod tidy -diff
	cd test/e2e/machine && go mod tidy -diff
	@$(MAKE) --no-print-directory arrows manifests-check prose

.PHONY: arrows
arrows: ## whether each package imports only what docs/design.md lists, and the lists of pure files agree (seconds)
	CGO_ENABLED=0 go test -vet=off -run '$(ARROWS)' ./cmd/nodekeep

.PHONY: prose
prose: $(BIN)/vale-$(VALE_VERSION) ## the words of README, docs and texts for users, by docs/style; long sentences are warnings
	$< --config docs/style/vale.ini *.md docs/*.md
	CGO_ENABLED=0 go test -vet=off -run '$(PROSE)' ./cmd/nodekeep

$(BIN)/vale-$(VALE_VERSION): # its parsers are written in C
	GOBIN=$(BIN) CGO_ENABLED=1 go install github.com/vale-cli/vale/v3/cmd/vale@$(VALE_VERSION)
	@mv $(BIN)/vale $@

$(BIN)/golangci-lint-$(GOLANGCI_LINT_VERSION):
	GOBIN=$(BIN) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
	@mv $(BIN)/golangci-lint $@

# Service discovery is not what it is here for, and the greater part of it.
test/programs/promql/bin/promtool: test/programs/promql/go.mod test/programs/promql/go.sum test/programs/promql/main.go
	cd test/programs/promql && CGO_ENABLED=0 go build -tags remove_all_sd -ldflags "-s -w" -o bin/ . github.com/prometheus/prometheus/cmd/promtool
	@touch $@

# Without cgo, as nodekeep itself, so that both share what is compiled.
$(BIN)/demo: always
	@CGO_ENABLED=0 test/programs/go.sh 'demo: building the demo ' build -o $@ ./test/demo

.PHONY: always
$(IMAGE_DIR)/binaries/%/nodekeep: always
	CGO_ENABLED=0 GOOS=$(*D) GOARCH=$(*F) go build -trimpath -buildvcs=false -ldflags "-s -w $(STAMP)" -o $@ ./cmd/nodekeep

$(HELM):
	GOBIN=$(BIN) CGO_ENABLED=0 go install helm.sh/helm/v4/cmd/helm@$(HELM_VERSION)
	@mv $(BIN)/helm $@

$(CRANE):
	GOBIN=$(BIN) CGO_ENABLED=0 go install github.com/google/go-containerregistry/cmd/crane@$(CRANE_VERSION)
	@mv $(BIN)/crane $@

$(COSIGN):
	GOBIN=$(BIN) CGO_ENABLED=0 go install github.com/sigstore/cosign/v3/cmd/cosign@$(COSIGN_VERSION)
	@mv $(BIN)/cosign $@

$(GOTESTSUM):
	GOBIN=$(BIN) CGO_ENABLED=0 go install gotest.tools/gotestsum@$(GOTESTSUM_VERSION)
	@mv $(BIN)/gotestsum $@

$(KIND):
	GOBIN=$(BIN) CGO_ENABLED=0 go install sigs.k8s.io/kind@$(KIND_VERSION)
	@mv $(BIN)/kind $@

$(CERTMANAGER): $(wildcard test/programs/certmanager/*)
	cd test/programs/certmanager && CGO_ENABLED=0 go build -o $@ .
